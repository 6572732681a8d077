"""Place and route on an ECP5 with 85,000 look-up tables, by nextpnr, and its bitstream.

Input: the netlist that Yosys writes as JSON. Output: a `Routed`: utilization, Fmax, worst paths
and, with pins, the configuration of the FPGA.
"""

import contextlib
import json
import re
import tempfile
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from daedal.common.errors import CapacityError, UserError
from daedal.hw.synth.floorplan import floorplans
from daedal.hw.synth.hierarchy import Hierarchy, top_cells
from daedal.hw.synth.near_constants import share_addresses, with_near_constants
from daedal.hw.synth.paths import TimingPath, read_path
from daedal.hw.synth.pnr_progress import PnrProgress
from daedal.hw.synth.sdf import read_sdf
from daedal.hw.synth.tools import ECPPACK, NEXTPNR, run_tool, run_tools
from daedal.hw.synth.worst_paths import worst_paths

__all__ = [
    "DEVICES",
    "PlaceRequest",
    "Routed",
    "pack_bitstream",
    "place_and_route",
    "place_and_route_all",
]

DEVICES = {"LFE5U-85F": "--85k", "LFE5UM-85F": "--um-85k", "LFE5UM5G-85F": "--um5g-85k"}
"""Devices with 85,000 look-up tables, whose fabric is the same, and nextpnr's options for them."""

_RESOURCE_OF = {
    "TRELLIS_COMB": "lut",
    "TRELLIS_FF": "ff",
    "MULT18X18D": "dsp",
    "DP16KD": "block_ram",
}
"""Resources by the types that nextpnr packs cells into; memories in tables take more of them."""

_BY_TIMING = [
    "--placer", "heap", "--placer-heap-timingweight", "100", "--placer-heap-critexp", "4"
]  # fmt: skip
_BY_WIRE = ["--placer", "static"]
"""nextpnr's placers: ADR 45 compares them."""

_PATIENCE = 2.0
"""A seed that takes this many times as long as another is congested and may take hours."""

_UTILIZATION = re.compile(r"Info:\s+(\w+): +(\d+)/ *(\d+) ")


@dataclass(frozen=True)
class PlaceRequest:
    """How to place and route.

    Parameters
    ----------
    device, package, speed_grade : the part; 6 is the slowest grade.
    pins : constraints in the tool's LPF format, which place every port. None: out of context, a
        block without pins, of which there is no bitstream.
    target_mhz : the target for every clock that `pins` does not constrain.
    seed : start value of the placer's random numbers.
    timing_driven : whether paths that are too slow attract their cells from the start. The other
        placement only shortens wires, and the router is done in half the time.
    """

    package: str = "CABGA381"
    speed_grade: int = 6
    pins: str | None = None
    target_mhz: float = 100.0
    seed: int = 1
    device: str = "LFE5U-85F"
    timing_driven: bool = False

    def __post_init__(self) -> None:
        if self.device not in DEVICES:
            raise UserError(
                f"a device must be one of {', '.join(DEVICES)}, not {self.device!r:.40}"
            )
        if self.speed_grade not in (6, 7, 8):
            raise UserError(f"a speed grade of an ECP5 is 6, 7 or 8, not {self.speed_grade}")
        if not 0 < self.target_mhz <= 1000:
            raise UserError(
                f"a clock must be more than 0 and at most 1000 MHz, not {self.target_mhz:g}"
            )


@dataclass(frozen=True)
class Routed:
    """A routed design.

    `fmax_mhz` by clock; `constraint_mhz` what each had to reach, where that is known: those of a
    PLL follow from its input; `paths` the worst first: one of each clock or, if there is only one
    clock, one of each pair of modules; `utilization` used and available by the device's types of
    cells (``TRELLIS_COMB`` are look-up tables); `config` in Trellis' text form, None out of
    context.
    """

    request: PlaceRequest
    fmax_mhz: dict[str, float]
    paths: tuple[TimingPath, ...]
    utilization: dict[str, tuple[int, int]]
    config: str | None
    constraint_mhz: dict[str, float] = field(default_factory=dict)

    @property
    def slowest_mhz(self) -> float:
        """What could be asked of the design instead of `target_mhz`; infinite where nothing is
        clocked. It is the Fmax of the only clock. Of several, each keeps its ratio to the target,
        and a path between two has a period of the faster one."""
        return min((self._reaches(*pair) for pair in self._pairs), default=float("inf"))

    @property
    def worst(self) -> TimingPath:
        """The critical path of what is slowest."""
        start, end = min(self._pairs, key=lambda pair: self._reaches(*pair))
        return next(
            path for path in self.paths if (path.start_clock, path.end_clock) == (start, end)
        )

    @property
    def _pairs(self) -> list[tuple[str, str]]:
        """Clocks of both ends of paths whose time is limited."""
        known = self.constraint_mhz
        between = {(path.start_clock, path.end_clock) for path in self.paths}
        return [(clock, clock) for clock in self.fmax_mhz] + sorted(
            pair for pair in between if pair[0] != pair[1] and known.keys() >= {*pair}
        )

    def _reaches(self, start: str, end: str) -> float:
        """The target at which the paths between two clocks, or of one, would be just in time."""
        reached = self.fmax_mhz[start]
        if start != end:
            reached = min(
                1000 / path.delay_ns
                for path in self.paths
                if (path.start_clock, path.end_clock) == (start, end)
            )
        wanted = [self.constraint_mhz.get(clock) for clock in (start, end)]
        if None in wanted:
            return reached
        return reached * self.request.target_mhz / max(mhz for mhz in wanted if mhz)

    @property
    def resources(self) -> dict[str, int]:
        """What is taken of the device by resource, as `families.Device` counts them."""
        used = {
            resource: self.utilization.get(kind, (0, 0))[0]
            for kind, resource in _RESOURCE_OF.items()
        }
        # The write port of a memory in tables takes the tables of a slice.
        used["lut"] += 2 * self.utilization.get("TRELLIS_RAMW", (0, 0))[0]
        return used


def place_and_route(
    netlist: str | Path,
    request: PlaceRequest,
    *,
    progress: Callable[[str], None] | None = None,
) -> Routed:
    """Place and route a netlist; minutes for a machine with a 16 x 16 array.

    Parameters
    ----------
    netlist : a flattened netlist in JSON, or the path of its file.
    progress : called with a short text from time to time.

    Raises
    ------
    CapacityError
        The device has too little of a resource.
    ToolError
        nextpnr is missing, or cannot place or route the design.
    """
    ((_, routed),) = place_and_route_all(
        netlist, [request], progress=lambda _number, text: progress(text) if progress else None
    )
    return routed


def place_and_route_all(
    netlist: str | Path,
    requests: Sequence[PlaceRequest],
    *,
    num_processes: int = 1,
    progress: Callable[[int, str], None] = lambda _number, _text: None,
) -> Generator[tuple[int, Routed], None, None]:
    """Place and route once for each request, `num_processes` at a time.

    Yields the number of a request and its result as soon as it is available, and nothing for
    requests that take more than twice as long as another: their placement is congested. Raises as
    `place_and_route` does. A caller that stops early must close the generator, which ends the
    tools.
    """
    NEXTPNR.require("place and route")
    design = json.loads(
        netlist.read_text(encoding="utf-8") if isinstance(netlist, Path) else netlist
    )
    cells = top_cells(design)
    hierarchy = Hierarchy.of(cells)

    logs = [PnrProgress() for _ in requests]

    def line(number: int, said: str) -> None:
        _check_capacity(said)
        phase = NEXTPNR.first_run(said) or logs[number].phase_of(said)
        if phase is not None:
            progress(number, phase)

    with tempfile.TemporaryDirectory(prefix="daedal-place-") as name:
        folder = Path(name)
        progress(0, "planning multipliers and block RAM")
        share_addresses(cells)
        plans = floorplans(cells, [request.seed for request in requests])
        for number, plan in enumerate(plans):
            for cell, site in plan.items():
                cells[cell]["attributes"]["BEL"] = site
            planned = with_near_constants(design, plan)
            (folder / f"design{number}.json").write_text(json.dumps(planned), encoding="utf-8")
        calls = [_arguments(request, number, folder) for number, request in enumerate(requests)]
        with contextlib.closing(
            run_tools(
                NEXTPNR,
                calls,
                folder,
                num_processes=num_processes,
                patience=_PATIENCE,
                line=line,
            )
        ) as done:
            for number in done:
                yield number, _routed(requests[number], number, folder, hierarchy)


def pack_bitstream(config: str) -> bytes:
    """The bitstream of a configuration, compressed. Raises ToolError where ecppack fails."""
    ECPPACK.require("a bitstream")
    with tempfile.TemporaryDirectory(prefix="daedal-pack-") as name:
        folder = Path(name)
        (folder / "config.txt").write_text(config, encoding="utf-8")
        run_tool(ECPPACK, ["--compress", "config.txt", "design.bit"], folder)
        return (folder / "design.bit").read_bytes()


def _check_capacity(line: str) -> None:
    """Raise CapacityError if a line of the utilization exceeds the device."""
    found = _UTILIZATION.match(line)
    if found and found[1] in _RESOURCE_OF and int(found[2]) > int(found[3]):
        raise CapacityError(
            f"{found[1]} must be at most {int(found[3]):,}, not {int(found[2]):,}, to be placed; "
            "take a smaller variant or a larger device",
            _RESOURCE_OF[found[1]],
            int(found[2]),
        )


def _arguments(request: PlaceRequest, number: int, folder: Path) -> list[str]:
    """Arguments of nextpnr; writes the constraints that it reads."""
    arguments = [
        DEVICES[request.device], "--package", request.package, "--speed", str(request.speed_grade),
        "--json", f"design{number}.json", "--seed", str(request.seed),
        *(_BY_TIMING if request.timing_driven else _BY_WIRE),
        "--freq", f"{request.target_mhz:g}", "--timing-allow-fail",
        "--report", f"report{number}.json", "--sdf", f"delays{number}.sdf",
    ]  # fmt: skip
    if request.pins is None:
        return [*arguments, "--out-of-context"]
    (folder / f"pins{number}.lpf").write_text(request.pins, encoding="utf-8")
    return [*arguments, "--lpf", f"pins{number}.lpf", "--textcfg", f"config{number}.txt"]


def _routed(request: PlaceRequest, number: int, folder: Path, hierarchy: Hierarchy) -> Routed:
    """Read what nextpnr left of a call."""
    report = json.loads((folder / f"report{number}.json").read_text(encoding="utf-8"))
    config = folder / f"config{number}.txt"
    paths = [read_path(path, hierarchy) for path in report["critical_paths"]]
    fmax = {clock: item["achieved"] for clock, item in report["fmax"].items()}
    if len(fmax) == 1:
        # The report has one path, with names of nets; the delays have all.
        known = {path.ends for path in paths}
        delays = read_sdf((folder / f"delays{number}.sdf").read_text(encoding="utf-8"))
        more = worst_paths(delays, hierarchy, *fmax)
        paths += [path for path in more if path.ends not in known]
    return Routed(
        request=request,
        fmax_mhz=fmax,
        paths=tuple(sorted(paths, key=lambda path: -path.delay_ns)),
        utilization={
            kind: (item["used"], item["available"])
            for kind, item in report["utilization"].items()
            if item["used"]
        },
        config=config.read_text(encoding="utf-8") if config.is_file() else None,
        constraint_mhz={clock: item["constraint"] for clock, item in report["fmax"].items()},
    )
