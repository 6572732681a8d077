"""`inspect`: an artifact's contents, where each node of its model runs, and its cost.

>>> report = daedal.inspect(artifact)
>>> [(item.placement.node, item.placement.why, item.share_of_time) for item in report.nodes]
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from daedal.api import code_trust
from daedal.artifact.artifact import Artifact, HostPart, Launch, Layer, Placement, TargetPart
from daedal.common.errors import DaedalError, DeviceError
from daedal.isa.memory_file import AnyMemory, memory_key
from daedal.isa.memory_model import MemoryModel
from daedal.isa.profile import Profile
from daedal.profiling.gpu import KernelProfile, gpu_kernels
from daedal.runtime.driver import LoadedProgram
from daedal.runtime.host import HostModel
from daedal.runtime.host_parts import CodeTrust, CompiledPart, load_host_part
from daedal.runtime.layers import LayerProfile, layer_profiles, layer_tags
from daedal.runtime.memory_flow import MemoryFlow
from daedal.sim.timing.device import TimingDevice

__all__ = [
    "HostReport",
    "Inspection",
    "LaunchReport",
    "LayerReport",
    "NodeReport",
    "TargetReport",
    "inspect",
    "run_cycles",
]

DEFAULT_MHZ = 100.0
"""Default clock for converting cycles to seconds."""

_REPEATS = 3
_SHORT_SECONDS = 0.1


@dataclass(frozen=True)
class LayerReport:
    """A layer of a launch. `profile` is the cycle model's; None for a layer that stores nothing."""

    layer: Layer
    num_instructions: int
    profile: LayerProfile | None


@dataclass(frozen=True)
class LaunchReport:
    """A part that the accelerator runs.

    Attributes
    ----------
    cycles : of the cycle model.
    seconds : their duration at the requested clock.
    workspace_needed_bytes : the largest number of workspace bytes live in any layer.
    """

    launch: Launch
    layers: tuple[LayerReport, ...]
    num_tokens: int
    workspace_needed_bytes: int
    cycles: int
    seconds: float


@dataclass(frozen=True)
class HostReport:
    """A part that the host or a GPU runs. `seconds` are the host's, measured here on zeros; None if
    not measured."""

    host: HostPart
    seconds: float | None


@dataclass(frozen=True)
class TargetReport:
    """A part of another target, whose time is not known."""

    part: TargetPart
    seconds: None = None


@dataclass(frozen=True)
class NodeReport:
    """Where a node of the model runs.

    `share_of_macs` is None if any node's number is unknown. `share_of_time` is that of its layer,
    or of its whole host part, reported at one of its nodes; None at the others, and if not
    measured.
    """

    placement: Placement
    share_of_macs: float | None
    share_of_time: float | None = None


@dataclass(frozen=True, repr=False)
class Inspection:
    """What `inspect` found; `parts` in the order in which they run, `kernels` those of GPUs."""

    artifact: Artifact
    memory: str
    mhz: float
    parts: tuple[LaunchReport | HostReport | TargetReport, ...]
    nodes: tuple[NodeReport, ...] = ()
    kernels: tuple[KernelProfile, ...] = ()

    def __repr__(self) -> str:
        cycles = sum(launch.cycles for launch in self.launches)
        taken = "of unknown time" if self.seconds is None else f"{1e3 * self.seconds:.3g} ms"
        return f"<Inspection of {self.artifact!r}: {cycles:,} cycles, a run {taken}>"

    @property
    def launches(self) -> tuple[LaunchReport, ...]:
        """The parts that the accelerator runs."""
        return tuple(part for part in self.parts if isinstance(part, LaunchReport))

    @property
    def seconds(self) -> float | None:
        """Of all parts; None where one was not measured."""
        known = [part.seconds for part in self.parts if part.seconds is not None]
        return sum(known) if len(known) == len(self.parts) else None


def inspect(
    artifact: Artifact,
    *,
    memory: AnyMemory | None = None,
    mhz: float = DEFAULT_MHZ,
    time_host: bool = True,
    warn: Callable[[str], None] | None = None,
) -> Inspection:
    """Inspect an artifact, with cycles from the cycle model and measured host times.

    A program's cycles are those of every run but the first, without its setup.

    Parameters
    ----------
    memory : behind the accelerator's bus; by default what the artifact was compiled for.
    mhz : clock of the accelerator, to compare its cycles with the host's seconds.
    time_host : run the host's parts, on zeros, to measure how long they take.
    warn : called with a sentence where machine code is compiled again, as in `daedal.simulate`.

    Raises DeviceError for a program that the cycle model cannot run.
    """
    trust, behind = code_trust(report=warn), artifact.memory_or(memory)
    parts = list[LaunchReport | HostReport | TargetReport]()
    for number, part in enumerate(artifact.parts):
        if isinstance(part, Launch):
            parts.append(_launch_report(part, behind, mhz))
        elif isinstance(part, TargetPart):
            parts.append(TargetReport(part))
        else:
            is_timed = time_host and part.gpu is None
            seconds = _seconds(part, f"part {number}", trust) if is_timed else None
            parts.append(HostReport(part, seconds))
    kernels = gpu_kernels(artifact)
    report = Inspection(artifact, memory_key(behind), mhz, tuple(parts), kernels=kernels)
    return replace(report, nodes=_nodes(report))


def run_cycles(artifact: Artifact) -> int | None:
    """Cycles of all launches of a run but the first, by the cycle model with the artifact's memory;
    None without launches, and where the cycle model cannot run one."""
    try:
        counts = [_profile(launch, artifact.memory).cycles for launch in artifact.launches]
    except DeviceError:
        return None
    return sum(count or 0 for count in counts) if counts else None


def _profile(launch: Launch, memory: MemoryModel) -> Profile:
    """Of the cycle model, without the program's setup."""
    program = launch.program.repeated
    loaded = LoadedProgram.place(program, TimingDevice(program.variant, timing=memory))
    return loaded.device.launch(program, loaded.bases)


def _launch_report(launch: Launch, memory: MemoryModel, mhz: float) -> LaunchReport:
    program = launch.program.repeated
    profile = _profile(launch, memory)
    assert profile.cycles is not None, "the cycle model counts cycles"
    profiles = {item.layer.tag: item for item in layer_profiles(launch, profile)}
    counts = Counter(layer_tags(program))
    return LaunchReport(
        launch,
        tuple(
            LayerReport(layer, counts[layer.tag], profiles.get(layer.tag))
            for layer in launch.layers
        ),
        sum(item.push.bit_count() for item in program.instructions),
        MemoryFlow(program).workspace_needed_bytes,
        profile.cycles,
        profile.cycles / (1e6 * mhz),
    )


def _seconds(part: HostPart, what: str, trust: CodeTrust) -> float | None:
    """Duration of a host part; None if it cannot run on zeros."""
    model = load_host_part(part, what, trust)
    try:
        seconds = _timed(model)
        for _ in range(_REPEATS - 1 if seconds < _SHORT_SECONDS else 0):
            seconds = min(seconds, _timed(model))
    except DaedalError:
        return None
    return seconds


def _timed(model: HostModel | CompiledPart) -> float:
    zeros = model.zeros()
    begin = time.perf_counter()
    with np.errstate(all="ignore"):
        model.run(zeros)
    return time.perf_counter() - begin


def _nodes(report: Inspection) -> tuple[NodeReport, ...]:
    """Shares of MACs and of time. A layer's time is reported at its node with the most MACs."""
    placements = report.artifact.placements
    known = all(item.macs is not None for item in placements if item.part is not None)
    macs = max(1, sum(item.macs or 0 for item in placements if item.part is not None))
    leaders: dict[tuple[int | None, str], Placement] = {}
    for item in placements:
        if item.part is not None:
            key = item.part, item.layer
            if key not in leaders or (item.macs or 0) > (leaders[key].macs or 0):
                leaders[key] = item
    shares = _shares_of_time(report)
    return tuple(
        NodeReport(
            item,
            _share(item, macs) if known else None,
            shares.get((item.part, item.layer))
            if leaders.get((item.part, item.layer)) is item
            else None,
        )
        for item in placements
    )


def _share(item: Placement, macs: int) -> float:
    return (item.macs or 0) / macs if item.part is not None else 0.0


def _shares_of_time(report: Inspection) -> Mapping[tuple[int | None, str], float]:
    """By part and layer; parts of the host have no layers."""
    if not report.seconds:
        return {}
    shares: dict[tuple[int | None, str], float] = {}
    for number, part in enumerate(report.parts):
        if isinstance(part, HostReport):
            assert part.seconds is not None, "everything was measured"
            shares[number, ""] = part.seconds / report.seconds
            continue
        assert isinstance(part, LaunchReport), "the time of other targets is not known"
        for item in part.layers:
            if item.profile is not None:
                seconds = item.profile.cycles / (1e6 * report.mhz)
                shares[number, item.layer.output] = seconds / report.seconds
    return shares
