"""The public functions: `compile` a model for a variant, and `simulate` the artifact.

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

from daedal.compiler.crossings import DEFAULT_HOST, HostRates
from daedal.compiler.model import compile_model
from daedal.compiler.segment_store import default_store
from daedal.compiler.space import Config
from daedal.devices import open_device
from daedal.isa.artifact import Artifact
from daedal.isa.profile import Profile
from daedal.isa.protocols import Device
from daedal.isa.variant import Variant, load_variant
from daedal.items import split_items, stack_items
from daedal.runtime.executor import Executor, RunResult
from daedal.runtime.layers import LayerProfile, layer_profiles

__all__ = ["SimulationResult", "compile", "simulate"]

Report = Callable[[str], None]


@dataclass(frozen=True)
class SimulationResult:
    """Results of one or more runs.

    `outputs` and `tensors` (those that left the accelerator) are stacked along axis 0. There is one
    profile per run, over all its launches; `layers` has the per-layer profiles of each run, if the
    device records marks.
    """

    outputs: dict[str, npt.NDArray[Any]]
    tensors: dict[str, npt.NDArray[np.int64]]
    profiles: tuple[Profile, ...]
    layers: tuple[tuple[LayerProfile, ...], ...]

    @classmethod
    def of_runs(cls, artifact: Artifact, runs: Sequence[RunResult]) -> "SimulationResult":
        """Join one or more runs of an artifact."""
        return cls(
            outputs=stack_items([run.outputs for run in runs]),
            tensors=stack_items([run.tensors for run in runs]),
            profiles=tuple(run.profile for run in runs),
            layers=tuple(_layers(artifact, run) for run in runs),
        )


def compile(  # the name of the public interface, as in torch.compile and re.compile
    model: str | Path | bytes,
    variant: Variant | str,
    *,
    from_tensors: Sequence[str] = (),
    to_tensors: Sequence[str] = (),
    fuse: bool = True,
    host: HostRates | None = DEFAULT_HOST,
    configs: Mapping[str, Config] | None = None,
    cache: bool = True,
    dump_dir: str | Path | None = None,
    report: Report | None = None,
) -> Artifact:
    """Compile an int8 ONNX model for a variant; into one program, unless host operators split it.

    `from_tensors` and `to_tensors` select the part between quantized tensors. Without `fuse`, every
    operator is a separate layer, to measure the benefit of fusion. `host` has the rates that decide
    when a few operators between host operators are not worth the transfer to the accelerator and
    back; with None, everything that can run on the accelerator does. `configs` are schedules of
    layers by the keys of their workloads, as `daedal.tuning` finds them. With `cache`, the code of
    layers is kept in the user's cache for the next compilation. The intermediate forms are written
    to `dump_dir` after each step; `report` is called with a sentence before each long one.

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
        host=host,
        configs=configs,
        store=default_store() if cache else None,
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
    feeds = split_items(executor.input_shapes, inputs)
    runs: list[RunResult] = []
    for number, feed in enumerate(feeds):
        if progress is not None:
            progress(number, len(feeds))
        runs.append(executor.run(feed))
    if progress is not None:
        progress(len(feeds), len(feeds))
    return SimulationResult.of_runs(artifact, runs)


def _layers(artifact: Artifact, run: RunResult) -> tuple[LayerProfile, ...]:
    return tuple(
        layer
        for launch, profile in zip(artifact.launches, run.launches, strict=True)
        for layer in layer_profiles(launch, profile)
    )
