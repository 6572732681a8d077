"""`Executor`: runs an artifact on a device: host prologue, one launch, host epilogue."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from daedal.isa.artifact import Artifact, Binding
from daedal.isa.errors import ModelError
from daedal.isa.profile import Profile
from daedal.isa.protocols import Device
from daedal.runtime.driver import LoadedProgram
from daedal.runtime.host import Arrays, HostModel

__all__ = ["Executor", "RunResult"]


@dataclass(frozen=True)
class RunResult:
    """Outputs of the model; the (N, C, H, W) integer tensors that left the accelerator, by the
    model's names; the profile."""

    outputs: Arrays
    tensors: dict[str, npt.NDArray[np.int64]]
    profile: Profile


class Executor:
    """An artifact placed on a device. Inputs and outputs are numpy arrays by name.

    Raises ArtifactError for an artifact of another variant.
    """

    def __init__(self, artifact: Artifact, device: Device) -> None:
        self.artifact = artifact
        self._loaded = LoadedProgram.place(artifact.program, device)
        self._before = HostModel(artifact.prologue, "prologue")
        self._after = HostModel(artifact.epilogue, "epilogue")

    @property
    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of one run's inputs by name."""
        if self._before.inputs:
            return dict(self._before.inputs)
        return {binding.name: binding.shape for binding in self.artifact.inputs}

    def run(self, inputs: Mapping[str, npt.ArrayLike]) -> RunResult:
        """Run once. Raises ModelError for inputs that do not fit, DeviceError for a failed run."""
        values = self._before.run({name: np.asarray(value) for name, value in inputs.items()})
        specs = {spec.name: spec for spec in self.artifact.program.inputs}
        fed = {
            binding.tensor: _turned(binding, _to_program(binding, values)).reshape(
                specs[binding.tensor].shape
            )
            for binding in self.artifact.inputs
        }
        tensors, profile = self._loaded.run(fed)
        left = {
            binding.name: _to_model(binding, tensors[binding.tensor])
            for binding in self.artifact.outputs
        }
        named = {binding.name: tensors[binding.tensor] for binding in self.artifact.outputs}
        return RunResult(self._after.run(left), named, profile)


def _to_program(binding: Binding, values: Arrays) -> npt.NDArray[np.int64]:
    if binding.name not in values:
        raise ModelError(
            f"a run must give the tensor {binding.name!r} of shape {binding.shape}; it got "
            f"{', '.join(map(repr, values)) or 'nothing'}"
        )
    array = values[binding.name]
    kind = np.dtype(np.uint8 if binding.flip_sign else np.int8)
    if array.shape != binding.shape or array.dtype != kind:
        raise ModelError(
            f"tensor {binding.name!r} must be {kind} of shape {binding.shape}, "
            f"not {array.dtype} of shape {array.shape}"
        )
    return array.astype(np.int64) - (128 if binding.flip_sign else 0)


def _to_model(binding: Binding, array: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    shaped = _turned(binding, array).reshape(binding.shape)
    return (shaped + 128).astype(np.uint8) if binding.flip_sign else shaped.astype(np.int8)


def _turned(binding: Binding, array: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The axes in the order of the binding, if it has one."""
    return array.reshape(binding.view).transpose(binding.order) if binding.order else array
