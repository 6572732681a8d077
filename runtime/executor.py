"""`Executor`: runs an artifact: its parts in order, on the host, on a device, on other targets."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from daedal.artifact.artifact import Artifact, Binding, Launch, State, TargetPart
from daedal.artifact.parts import Part
from daedal.common.errors import ArtifactError, ModelError
from daedal.isa.profile import Profile
from daedal.isa.protocols import Device
from daedal.runtime.driver import LoadedProgram
from daedal.runtime.gpu_device import GpuDevice
from daedal.runtime.host import Arrays, HostModel
from daedal.runtime.host_parts import CodeTrust, CompiledPart, load_host_part
from daedal.runtime.states import DeviceState
from daedal.runtime.target_parts import Kept, TargetRun, bring

__all__ = ["Executor", "RunResult"]


@dataclass(frozen=True)
class RunResult:
    """Outputs of the model; the (N, C, H, W) integer tensors that left the accelerator, by the
    model's names; one profile per launch; and `values`, all tensors passed between host and
    accelerator, in the model's form."""

    outputs: Arrays
    tensors: dict[str, npt.NDArray[np.int64]]
    launches: tuple[Profile, ...]
    values: Arrays

    @property
    def profile(self) -> Profile:
        """The sum over all launches."""
        return Profile.total(self.launches)


class Executor:
    """An artifact placed on a device. Inputs and outputs are numpy arrays by name.

    Parameters
    ----------
    device : None for an artifact without programs.
    trust : which machine code from files runs; by default, what was compiled here.
    gpu : runs the parts that have code for GPUs; None: the processor does.

    Raises ArtifactError for an artifact of another variant or that needs a device, with a damaged
    host part, or with machine code that may not run.
    """

    def __init__(
        self,
        artifact: Artifact,
        device: Device | None,
        trust: CodeTrust | None = None,
        gpu: GpuDevice | None = None,
    ) -> None:
        self.artifact = artifact
        self._parts = [
            _loaded(part, f"part {number}", artifact.states, device, trust, gpu)
            for number, part in enumerate(artifact.parts)
        ]

    @property
    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of one run's inputs by name."""
        return {value.name: value.shape for value in self.artifact.inputs}

    def clear(self) -> None:
        """Zero all states, as they are at first."""
        for state in self._states:
            state.clear()

    def run(self, inputs: Mapping[str, npt.ArrayLike], position: int | None = None) -> RunResult:
        """Run once; then store the new rows of all states at `position`, if it is given.

        Raises ModelError for inputs that do not fit and for a row that a state does not have,
        DeviceError for a failed run.
        """
        if position is not None:
            for state in self._states:
                state.check(position)
        values: Arrays = {name: np.asarray(value) for name, value in inputs.items()}
        kept: dict[str, Kept] = {}
        tensors: dict[str, npt.NDArray[np.int64]] = {}
        profiles: list[Profile] = []
        for part in self._parts:
            if isinstance(part, TargetRun):
                part.run(values, kept)
                continue
            bring(kept, values, part.inputs)
            if not isinstance(part, _LoadedLaunch):
                values.update(part.run(values))
                continue
            results, left, profile = part.run(values)
            values.update(results)
            tensors.update(left)
            profiles.append(profile)
        if position is not None:
            for state in self._states:
                state.store(position)
        bring(kept, values, [item.name for item in self.artifact.outputs])
        return RunResult(self._outputs(values), tensors, tuple(profiles), values)

    @property
    def _states(self) -> list[DeviceState]:
        parts = (part for part in self._parts if isinstance(part, _LoadedLaunch))
        return [state for part in parts for state in part.states]

    def _outputs(self, values: Arrays) -> Arrays:
        missing = [item.name for item in self.artifact.outputs if item.name not in values]
        if missing:
            raise ArtifactError(
                f"the parts of an artifact must compute its outputs, and none computes "
                f"{missing[0]!r}; compile the model again"
            )
        return {item.name: values[item.name] for item in self.artifact.outputs}


def _loaded(
    part: Part,
    what: str,
    states: Sequence[State],
    device: Device | None,
    trust: CodeTrust | None,
    gpu: GpuDevice | None,
) -> "_LoadedLaunch | TargetRun | HostModel | CompiledPart":
    """A part that is ready to run; `what` names it in errors."""
    if isinstance(part, Launch):
        return _LoadedLaunch(part, _needed(device), states)
    if isinstance(part, TargetPart):
        return TargetRun(part)
    return load_host_part(part, what, trust, gpu)


def _needed(device: Device | None) -> Device:
    if device is None:
        raise ArtifactError("an artifact with programs must be run on a device; open one")
    return device


class _LoadedLaunch:
    """A program on the device, with the conversion of its inputs and outputs."""

    def __init__(self, launch: Launch, device: Device, states: Sequence[State]) -> None:
        kept = {state.tensor for state in states}
        specs = {spec.name: spec for spec in (*launch.program.inputs, *launch.program.outputs)}
        for group, known in (
            (launch.inputs, [x for x in launch.program.inputs if x.name not in kept]),
            (launch.outputs, launch.program.outputs),
        ):
            _check_names(group, [spec.name for spec in known])
        for binding in (*launch.inputs, *launch.outputs):
            _check_shape(binding, specs[binding.tensor].shape)
        self._shapes = {name: spec.shape for name, spec in specs.items()}
        self._launch = launch
        self.inputs = tuple(binding.name for binding in launch.inputs)
        self._loaded = LoadedProgram.place(launch.program, device, kept)
        self.states = [
            DeviceState(
                state, specs[state.tensor], device, self._loaded.bases[specs[state.tensor].base]
            )
            for state in states
            if state.tensor in specs
        ]
        for state in self.states:
            state.clear()

    def run(self, values: Arrays) -> tuple[Arrays, dict[str, npt.NDArray[np.int64]], Profile]:
        """Outputs in the model's form, the same as integers (N, C, H, W), and the counters."""
        fed = {
            binding.tensor: _moved(binding, _to_program(binding, values)).reshape(
                self._shapes[binding.tensor]
            )
            for binding in self._launch.inputs
        }
        tensors, profile = self._loaded.run(fed)
        left = {item.name: tensors[item.tensor] for item in self._launch.outputs}
        named = {item.name: _to_model(item, left[item.name]) for item in self._launch.outputs}
        return named, left, profile


def _check_names(bindings: Sequence[Binding], names: Sequence[str]) -> None:
    found = [binding.tensor for binding in bindings]
    if sorted(found) != sorted(names):
        raise ArtifactError(
            f"an artifact must bind exactly the tensors of its program ({', '.join(names)}), not "
            f"{', '.join(found) or 'none'}; compile the model again"
        )


def _check_shape(binding: Binding, shape: tuple[int, ...]) -> None:
    shapes = (shape, binding.shape, *(move.shape for move in binding.moves))
    same_size = len({math.prod(item) for item in shapes}) == 1
    if not same_size or any(
        sorted(move.order) != list(range(len(move.shape))) for move in binding.moves
    ):
        raise ArtifactError(
            f"an artifact must bind tensors to others of their size, and {binding.name!r} of shape "
            f"{binding.shape} is bound to {shape}; compile the model again"
        )


def _to_program(binding: Binding, values: Arrays) -> npt.NDArray[np.int64]:
    if binding.name not in values:
        raise ModelError(
            f"a run must give the tensor {binding.name!r} of shape {binding.shape}; it got "
            f"{', '.join(map(repr, values)) or 'nothing'}"
        )
    array = values[binding.name]
    kind = _dtype(binding)
    if array.shape != binding.shape or array.dtype != kind:
        raise ModelError(
            f"tensor {binding.name!r} must be {kind} of shape {binding.shape}, "
            f"not {array.dtype} of shape {array.shape}"
        )
    return array.astype(np.int64) - (128 if binding.flip_sign else 0)


def _to_model(binding: Binding, array: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    shaped = _moved(binding, array).reshape(binding.shape)
    return (shaped + (128 if binding.flip_sign else 0)).astype(_dtype(binding))


def _dtype(binding: Binding) -> np.dtype[Any]:
    """Element type of the model's tensor."""
    if binding.flip_sign:
        return np.dtype(np.uint8)
    return np.dtype(np.int16 if binding.wide else np.int8)


def _moved(binding: Binding, array: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The elements reordered for the side that receives the tensor."""
    for move in binding.moves:
        array = array.reshape(move.shape).transpose(move.order)
    return array
