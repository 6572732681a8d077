"""ONNX's standard backend interface, on compiled code for this processor.

>>> import daedal.backend
>>> prepared = daedal.backend.prepare(model)
>>> prepared.run([x])[0]

Source: `onnx.backend.base`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from onnx.backend.base import Backend, BackendRep, namedtupledict

from daedal.compiler.cpu.build import build_host_code
from daedal.isa.host_code import HostCode
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


class Prepared(BackendRep):  # type: ignore[misc]
    """A compiled model."""

    def __init__(self, code: HostCode) -> None:
        self.code = code
        self._program = HostProgram(code)

    def run(self, inputs: Sequence[Any] | Mapping[str, Any], **_options: Any) -> tuple[Any, ...]:
        """The outputs for inputs in the model's order, or by name."""
        given = (
            inputs
            if isinstance(inputs, Mapping)
            else dict(zip(self.code.inputs, inputs, strict=False))
        )
        results = self._program.run(given)
        names = [name if name.isidentifier() else f"y{n}" for n, name in enumerate(results)]
        outputs: tuple[Any, ...] = namedtupledict("Outputs", names)(*results.values())
        return outputs


class DaedalBackend(Backend):  # type: ignore[misc]
    """What `onnx.backend.base.Backend` asks for."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **_options: Any) -> bool:
        """Whether a model can be run: every valid one can, interpreted where need be."""
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **_options: Any) -> Prepared:
        """Compile a model for this processor."""
        onnx.checker.check_model(model)
        return Prepared(build_host_code(model))

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether `device` is the processor."""
        return device.split(":", 1)[0] == "CPU"


is_compatible = DaedalBackend.is_compatible
prepare = DaedalBackend.prepare
run_model = DaedalBackend.run_model
run_node = DaedalBackend.run_node
supports_device = DaedalBackend.supports_device
