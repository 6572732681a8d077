"""ONNX's standard backend interface, on compiled code for this processor or a GPU.

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
from daedal.common.errors import DeviceError
from daedal.compiler.cpu.build import build_host_code
from daedal.compiler.frontend.host_model import modern_model
from daedal.compiler.gpu.architectures import best_architecture
from daedal.compiler.gpu.build import build_gpu_code
from daedal.devices import find_gpu
from daedal.runtime.gpu_device import GpuDevice
from daedal.runtime.gpu_program import GpuProgram
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

    Parameters
    ----------
    gpu : what runs it; None: this processor.

    Attributes
    ----------
    code : what the last run ran; for a GPU, its tensors and steps.
    """

    def __init__(self, model: onnx.ModelProto, gpu: GpuDevice | None = None) -> None:
        self._model = modern_model(model)
        self._gpu = gpu
        self._programs: dict[Shapes, tuple[HostCode, HostProgram | GpuProgram]] = {}
        given = {item.name for item in model.graph.initializer}
        self._inputs = [item for item in model.graph.input if item.name not in given]
        self._open = {item.name for item in self._inputs if not _is_static(item.type)}
        self.code: HostCode | None = None
        if not self._open:
            self.code, _ = self._program({})

    def _program(self, values: Mapping[str, Any]) -> tuple[HostCode, HostProgram | GpuProgram]:
        shapes = tuple(
            (name, np.shape(values[name]))
            for name in sorted(self._open & values.keys())
            if isinstance(values[name], np.ndarray)
        )
        if shapes not in self._programs:
            self._programs[shapes] = self._compiled(dict(shapes))
        return self._programs[shapes]

    def _compiled(
        self, shapes: Mapping[str, tuple[int, ...]]
    ) -> tuple[HostCode, HostProgram | GpuProgram]:
        if self._gpu is None:
            code = build_host_code(self._model, shapes=shapes)
            return code, HostProgram(code)
        best = best_architecture(self._gpu.architectures)
        if best is None:
            raise DeviceError(
                f"kernels must be compiled for a GPU of {', '.join(self._gpu.architectures)} "
                f"({self._gpu.name}), and the compiler has none of these; take the device 'CPU'"
            )
        kernels = build_gpu_code(self._model, shapes=shapes, architectures=[best])
        return kernels.host, GpuProgram(kernels, self._gpu)

    def run(self, inputs: Sequence[Any] | Mapping[str, Any], **_options: Any) -> tuple[Any, ...]:
        """The outputs for inputs in the model's order, or by name."""
        given = (
            inputs
            if isinstance(inputs, Mapping)
            else dict(zip((item.name for item in self._inputs), inputs, strict=False))
        )
        self.code, program = self._program(given)
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
        """Compile a model for this processor, or for the GPU of this machine.

        Raises DeviceError where it has none.
        """
        onnx.checker.check_model(model)
        if _kind(device) == "CPU":
            return Prepared(model)
        gpu = find_gpu() if _kind(device) == "CUDA" else None
        if gpu is None:
            raise DeviceError(
                f"a machine must have a GPU for device {device!r}, and this has none; take the "
                "device 'CPU'"
            )
        return Prepared(model, gpu)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether `device` is the processor, or a GPU that this machine has."""
        return _kind(device) == "CPU" or (_kind(device) == "CUDA" and find_gpu() is not None)


def _kind(device: str) -> str:
    """ONNX's name of a device without its number."""
    return device.split(":", 1)[0]


is_compatible = DaedalBackend.is_compatible
prepare = DaedalBackend.prepare
run_model = DaedalBackend.run_model
run_node = DaedalBackend.run_node
supports_device = DaedalBackend.supports_device
