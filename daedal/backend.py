"""ONNX's standard backend interface, on compiled code for this processor.

>>> import daedal.backend
>>> prepared = daedal.backend.prepare(model)
>>> prepared.run([x])[0]

Source: `onnx.backend.base`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep, namedtupledict

from daedal.artifact.host_code import HostCode
from daedal.compiler.cpu.build import build_host_code
from daedal.compiler.frontend.host_model import modern_model
from daedal.runtime.host_code import HostProgram

__all__ = [
    "DaedalBackend",
    "Prepared",
    "is_compatible",
    "prepare",
    "run_model",
    "run_node",
    "supports_device",
]


Shapes = tuple[tuple[str, tuple[int, ...]], ...]


def _is_static(kind: onnx.TypeProto) -> bool:
    """Whether a type is no tensor, or one of known shape."""
    if not kind.HasField("tensor_type"):
        return True
    tensor = kind.tensor_type
    return tensor.HasField("shape") and all(dim.HasField("dim_value") for dim in tensor.shape.dim)


class Prepared(BackendRep):
    """A compiled model; if it leaves shapes of inputs open, it is compiled for those of each run.

    Attributes
    ----------
    code : what the last run ran.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        self._model = modern_model(model)
        self._programs: dict[Shapes, HostProgram] = {}
        given = {item.name for item in model.graph.initializer}
        self._inputs = [item for item in model.graph.input if item.name not in given]
        self._open = {item.name for item in self._inputs if not _is_static(item.type)}
        self.code: HostCode | None = None
        if not self._open:
            self.code = self._program({}).code

    def _program(self, values: Mapping[str, Any]) -> HostProgram:
        shapes = tuple(
            (name, np.shape(values[name]))
            for name in sorted(self._open & values.keys())
            if isinstance(values[name], np.ndarray)
        )
        if shapes not in self._programs:
            code = build_host_code(self._model, shapes=dict(shapes))
            self._programs[shapes] = HostProgram(code)
        return self._programs[shapes]

    def run(self, inputs: Sequence[Any] | Mapping[str, Any], **_options: Any) -> tuple[Any, ...]:
        """The outputs for inputs in the model's order, or by name."""
        given = (
            inputs
            if isinstance(inputs, Mapping)
            else dict(zip((item.name for item in self._inputs), inputs, strict=False))
        )
        program = self._program(given)
        self.code = program.code
        results = program.run(given)
        names = [name if name.isidentifier() else f"y{n}" for n, name in enumerate(results)]
        outputs: tuple[Any, ...] = namedtupledict("Outputs", names)(*results.values())
        return outputs


class DaedalBackend(Backend):
    """What `onnx.backend.base.Backend` asks for."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **_options: Any) -> bool:
        """Whether a model can be run: every valid one can, interpreted where need be."""
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **_options: Any) -> Prepared:
        """Compile a model for this processor."""
        onnx.checker.check_model(model)
        return Prepared(model)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether `device` is the processor."""
        return device.split(":", 1)[0] == "CPU"


is_compatible = DaedalBackend.is_compatible
prepare = DaedalBackend.prepare
run_model = DaedalBackend.run_model
run_node = DaedalBackend.run_node
supports_device = DaedalBackend.supports_device
