"""`verify`: points of the front built: their RTL simulated, synthesized, and placed and routed.

Input: complete folders of points. Output: predictions and measurements of each, and
``measured.json`` in its folder, which grows with every measurement, so that an interrupted
verification goes on. Measurements of other gateware than the folder's are made again.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from daedal.artifact.artifact import Artifact
from daedal.codesign.hardware.board import Board
from daedal.codesign.hardware.clock import Clock
from daedal.codesign.results.point_folder import PointFolder, read_record
from daedal.common.files import write_atomically
from daedal.common.reporting import Report
from daedal.hw.boards.bitstream import board_request
from daedal.hw.boards.settings import BoardSettings
from daedal.hw.boards.top import TOP_MODULE
from daedal.hw.synth.families import RESOURCES, Family
from daedal.hw.synth.flow import PLACED, Implementation, implement
from daedal.hw.synth.place import PlaceRequest
from daedal.hw.synth.tools import NEXTPNR, YOSYS
from daedal.isa.memory_model import MemoryModel
from daedal.isa.profile import Profile
from daedal.isa.variant import Variant
from daedal.native.caches.place import cache_folder
from daedal.runtime.driver import LoadedProgram
from daedal.sim.rtl.device import RtlDevice, default_cache_dir
from daedal.sim.rtl.toolchain import require_tools
from daedal.sim.rtl.verilog import kept_board_verilog
from daedal.synthesis import AIM_MHZ

__all__ = [
    "Tools",
    "Verified",
    "design_on",
    "implemented",
    "implemented_on",
    "require_implementation",
    "require_verification",
    "spread",
    "verify",
]

_Item = TypeVar("_Item")

_MEASURED = "measured.json"
_SEED = 1
_CHIP_PHASE = 180.0
"""Degrees by which the SDRAM's clock lags behind, as in `daedal build`."""


def rtl_cycles(artifact: Artifact, memory: MemoryModel, report: Report) -> int:
    """Cycles of all launches in a simulation of the RTL."""
    device = RtlDevice(artifact.variant, timing=memory, report=report)
    loaded = [LoadedProgram.place(launch.program, device) for launch in artifact.launches]
    total = Profile.total([device.launch(item.program, item.bases) for item in loaded]).cycles
    assert total is not None, "the RTL counts cycles"
    return total


def implemented(variant: Variant, verilog: str, family: Family, report: Report) -> Implementation:
    """Synthesized and, where there is open place and route, routed with one seed."""
    request = PlaceRequest(target_mhz=AIM_MHZ, seed=_SEED)
    requests = [request] if family in PLACED else []
    return implement(
        variant, verilog, family, cache_folder("synth"), requests=requests, progress=report
    )


def implemented_on(
    board: Board, variant: Variant, verilog: str, family: Family, report: Report
) -> Implementation:
    """As `implemented`, the whole board at the fastest clock that its memory allows; `verilog` is
    the board's."""
    return implement(
        variant,
        verilog,
        family,
        cache_folder("synth"),
        top=TOP_MODULE,
        requests=[board_request(_settings(board, variant), _SEED)],
        progress=report,
    )


def design_on(board: Board, variant: Variant, machine: str, family: Family, report: Report) -> str:
    """The Verilog of a whole board."""
    del machine  # the board's contains the same machine
    settings = _settings(board, variant)
    return kept_board_verilog(settings, default_cache_dir(), report, family=family)


def _settings(board: Board, variant: Variant) -> BoardSettings:
    described = board.description
    clock = described.clock(board.most_mhz * 1e6, _CHIP_PHASE)
    return BoardSettings.for_baud(described, variant, clock, board.sdram.chip)


def _alone(_variant: Variant, machine: str, _family: Family, _report: Report) -> str:
    return machine


@dataclass(frozen=True)
class Tools:
    """What measures; tests replace it.

    Attributes
    ----------
    cycles : of an artifact in a simulation of the RTL.
    implement : synthesizes and routes a design.
    design : the Verilog that is implemented, from that of the machine.
    """

    cycles: Callable[[Artifact, MemoryModel, Report], int] = rtl_cycles
    implement: Callable[[Variant, str, Family, Report], Implementation] = implemented
    design: Callable[[Variant, str, Family, Report], str] = _alone

    @classmethod
    def on(cls, board: Board | None) -> "Tools":
        """For machines alone, or with all of their board."""
        if board is None:
            return cls()
        return cls(implement=partial(implemented_on, board), design=partial(design_on, board))


@dataclass(frozen=True)
class Verified:
    """A point, predicted and measured.

    Attributes
    ----------
    cycles : by network: counted by the cycle model, and in the RTL.
    resources : by name: composed, and synthesized.
    clock : predicted.
    mhz : routed with one seed, out of context or with all of its board; None where nothing was
        routed, because the family has no open place and route or `problem` says why.
    """

    variant: str
    cycles: dict[str, tuple[int, int]]
    resources: dict[str, tuple[float, float]]
    clock: Clock
    mhz: float | None
    problem: str = ""

    @property
    def cycles_are_equal(self) -> bool:
        """Whether the cycle model counted what the RTL took."""
        return all(counted == found for counted, found in self.cycles.values())

    @property
    def clock_is_inside(self) -> bool | None:
        """Whether the routed clock is in the interval; None where nothing was routed."""
        return None if self.mhz is None else self.clock.low <= self.mhz <= self.clock.high

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "variant": self.variant,
            "cycles": {
                name: {"predicted": counted, "measured": found}
                for name, (counted, found) in self.cycles.items()
            },
            "resources": {
                name: {"predicted": composed, "measured": found}
                for name, (composed, found) in self.resources.items()
            },
            "clock": {
                "predicted": self.clock.mhz,
                "low": self.clock.low,
                "high": self.clock.high,
                "measured": self.mhz,
            },
            "problem": self.problem,
        }


def spread(items: Sequence[_Item], count: int) -> list[_Item]:
    """At most `count` of `items` at equal distances, with the first and the last."""
    if count >= len(items):
        return list(items)
    if count < 2:
        return list(items[:count])
    step = (len(items) - 1) / (count - 1)
    return [items[round(number * step)] for number in range(count)]


def require_verification(family: Family) -> None:
    """Raise ToolError unless everything that `Tools` calls is installed."""
    require_tools("native")
    require_implementation(family, "verification")


def require_implementation(family: Family, purpose: str) -> None:
    """Raise ToolError unless everything that `implemented` calls is installed."""
    YOSYS.require(purpose)
    if family in PLACED:
        NEXTPNR.require(purpose)


def verify(
    points: Sequence[PointFolder],
    *,
    report: Report = lambda _said: None,
    tools: Tools | None = None,
) -> Iterator[Verified]:
    """Measure what is not measured yet, point after point; yields each as soon as it is known.

    Raises
    ------
    ToolError
        A tool is missing, or failed.
    ExploreError, ArtifactError
        A file of a point is damaged.
    DeviceError
        The machine fails in the simulation.
    """
    for number, point in enumerate(points):

        def say(said: str, step: str = f"verifying {number + 1} of {len(points)}") -> None:
            report(f"{step}, {said}")

        yield _verify(point, tools or Tools(), say)


def _verify(point: PointFolder, tools: Tools, report: Report) -> Verified:
    item = point.evaluation
    verilog = tools.design(item.variant, point.verilog(report), item.family, report)
    kept = _kept(point, verilog)
    for network in item.cycles:
        if network not in kept["cycles"]:
            report(f"simulating {network} on {item.variant.name}")
            artifact = point.artifact(network)
            kept["cycles"][network] = tools.cycles(artifact, point.memory(), report)
            _keep(point, kept)
    if "resources" not in kept:
        report(f"synthesizing {item.variant.name}")
        kept.update(_implementation(tools.implement(item.variant, verilog, item.family, report)))
        _keep(point, kept)
    return Verified(
        item.variant.name,
        {name: (round(count), kept["cycles"][name]) for name, count in item.cycles.items()},
        {name: (item.resources[name], kept["resources"][name]) for name in RESOURCES},
        point.predicted().clock,
        kept["mhz"],
        kept["problem"],
    )


def _implementation(made: Implementation) -> dict[str, Any]:
    """Plain data; the resources are those that Yosys counts, as in the tables of `AreaModel`."""
    short = "; ".join(item.sentence for item in made.shortfalls)
    routed = made.best
    problem = f"does not fit: {short}" if short else ""
    return {
        "resources": {name: float(getattr(made.report, name)) for name in RESOURCES},
        "mhz": None if routed is None else routed.slowest_mhz,
        "worst path": None if routed is None else routed.worst.sentence,
        "seed": None if routed is None else routed.request.seed,
        "problem": problem,
    }


def _kept(point: PointFolder, verilog: str) -> dict[str, Any]:
    """What was measured of this design."""
    digest = hashlib.sha256(verilog.encode()).hexdigest()[:24]
    path = point.folder / _MEASURED
    found = read_record(path) if path.is_file() else {}
    is_current = found.get("verilog") == digest and isinstance(found.get("cycles"), dict)
    return found if is_current else {"verilog": digest, "cycles": {}}


def _keep(point: PointFolder, kept: dict[str, Any]) -> None:
    write_atomically(point.folder / _MEASURED, json.dumps(kept, indent=1) + "\n")
