"""The public functions: `compile` a model for a variant, `simulate` what came out.

>>> artifact = daedal.compile("digits_qdq.onnx", daedal.load_variant("vta"))
>>> result = daedal.simulate(artifact, {"image": images}, device="rtl")
>>> result.outputs["probabilities"], result.profiles[0].cycles
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from daedal.compiler.model import compile_model
from daedal.devices import open_device
from daedal.isa.artifact import Artifact
from daedal.isa.errors import ModelError
from daedal.isa.profile import Profile
from daedal.isa.protocols import Device
from daedal.isa.variant import Variant, load_variant
from daedal.runtime.executor import Executor, RunResult
from daedal.runtime.layers import LayerProfile, layer_profiles

__all__ = ["SimulationResult", "compile", "simulate"]

Report = Callable[[str], None]


@dataclass(frozen=True)
class SimulationResult:
    """Results of one or more runs.

    `outputs` and `tensors` (what left the accelerator) are stacked along axis 0; there is one
    profile per run, over all its launches, and `layers` is the per-layer profile of each where the
    device leaves marks.
    """

    outputs: dict[str, npt.NDArray[Any]]
    tensors: dict[str, npt.NDArray[np.int64]]
    profiles: tuple[Profile, ...]
    layers: tuple[tuple[LayerProfile, ...], ...]


def compile(  # the name of the public interface, as in torch.compile and re.compile
    model: str | Path | bytes,
    variant: Variant | str,
    *,
    from_tensors: Sequence[str] = (),
    to_tensors: Sequence[str] = (),
    fuse: bool = True,
    dump_dir: str | Path | None = None,
    report: Report | None = None,
) -> Artifact:
    """Compile an int8 QDQ ONNX model for a variant into one program.

    `from_tensors` and `to_tensors` cut out the part between quantized tensors. Without `fuse`,
    every operator is a layer of its own: to see what fusion is worth. `dump_dir` receives
    the intermediate forms after each step, `report` one sentence before each long one.

    Raises ModelError for a model that cannot be read or compiled, VariantError for an unknown
    variant, ScheduleError for a layer that does not fit the scratchpads.
    """
    chosen = variant if isinstance(variant, Variant) else load_variant(variant)
    return compile_model(
        model,
        chosen,
        from_tensors=tuple(from_tensors),
        to_tensors=tuple(to_tensors),
        fuse=fuse,
        dump_dir=Path(dump_dir) if dump_dir is not None else None,
        report=report,
    )


def simulate(
    artifact: Artifact,
    inputs: Mapping[str, npt.ArrayLike],
    *,
    device: str | Device = "functional",
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> SimulationResult:
    """Run an artifact on a device, once for each item that the inputs hold along axis 0.

    `device` is a name (``functional``, ``rtl``; `options` go to it) or an open device. `progress`
    is called with (runs done, runs in all).

    Raises ModelError for inputs that do not fit, DeviceError where the machine fails.
    """
    opened = open_device(device, artifact.variant, **options) if isinstance(device, str) else device
    executor = Executor(artifact, opened)
    feeds = _split(executor.input_shapes, {k: np.asarray(v) for k, v in inputs.items()})
    runs: list[RunResult] = []
    for number, feed in enumerate(feeds):
        if progress is not None:
            progress(number, len(feeds))
        runs.append(executor.run(feed))
    if progress is not None:
        progress(len(feeds), len(feeds))
    return SimulationResult(
        outputs=_stack([run.outputs for run in runs]),
        tensors=_stack([run.tensors for run in runs]),
        profiles=tuple(run.profile for run in runs),
        layers=tuple(_layers(artifact, run) for run in runs),
    )


def _layers(artifact: Artifact, run: RunResult) -> tuple[LayerProfile, ...]:
    return tuple(
        layer
        for launch, profile in zip(artifact.launches, run.launches, strict=True)
        for layer in layer_profiles(launch, profile)
    )


def _split(
    shapes: Mapping[str, tuple[int, ...]], inputs: Mapping[str, npt.NDArray[Any]]
) -> list[dict[str, npt.NDArray[Any]]]:
    """Cut arrays that hold several items along axis 0 into one dictionary per run."""
    counts = set()
    for name in (*shapes, *inputs):
        if name not in shapes or name not in inputs:
            raise ModelError(
                f"a run takes exactly the inputs {', '.join(map(repr, shapes))}; {name!r} is "
                f"{'missing' if name in shapes else 'none of them'}"
            )
        array, shape = inputs[name], shapes[name]
        single = max(1, shape[0]) if shape else 1
        fits = array.ndim == len(shape) and array.shape[1:] == shape[1:] and array.ndim > 0
        if not fits or array.shape[0] == 0 or array.shape[0] % single:
            raise ModelError(
                f"input {name!r} must have shape {shape}, or several of it along axis 0, "
                f"not {array.shape}"
            )
        counts.add(array.shape[0] // single)
    if len(counts) != 1:
        raise ModelError(f"all inputs must hold the same number of items, not {sorted(counts)}")
    (count,) = counts
    parts = {name: np.split(array, count) for name, array in inputs.items()}
    return [{name: items[k] for name, items in parts.items()} for k in range(count)]


def _stack(runs: Sequence[Mapping[str, npt.NDArray[Any]]]) -> dict[str, npt.NDArray[Any]]:
    return {
        name: np.concatenate([np.atleast_1d(run[name]) for run in runs], axis=0) for name in runs[0]
    }
