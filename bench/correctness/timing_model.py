"""The cycle model against the RTL: ``python bench/correctness/timing_model.py [--json F]``.

Programs: the streams of `bench.networks.unit_streams`, small networks, whole ResNet-18 and
MobileNet v1 on `vta`, the translated VTA programs and random programs; each on several variants and
memory presets. A program counts with its cycles and with the cycles between the marks of each unit:
its layers. Bars: no error above 1 % (or 16 cycles), no class of any unit off by more than 1 % of
the run, 50 million simulated cycles per second. Exit status 1 when one is missed, or something was
not run. What the RTL counted is kept in ``.daedal/truth``.
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.correctness.timing_cases import (
    ROOT,
    Case,
    network_cases,
    random_cases,
    stream_cases,
    vta_cases,
    zoo_cases,
)
from bench.correctness.timing_truth import RtlTruth
from bench.json_file import write_json
from bench.kit_speed.timing_speed import measure_timing
from bench.left_out import LeftOut
from bench.speed import on_one_core
from daedal.isa.memory_model import memory_model
from daedal.isa.profile import Profile
from daedal.isa.table import Unit
from daedal.isa.variant import Variant, load_variant
from daedal.native.caches.place import cache_folder
from daedal.sim.rtl.device import RtlDevice
from daedal.sim.timing.count import count_cycles

__all__ = ["VARIANTS", "Row", "compare", "main"]

VARIANTS = ("tiny", "vta", "wide", "int16")
RELATIVE_BAR = 0.01
CYCLES_BAR = 16
CHUNK = 100
"""Random programs of one simulator process."""


@dataclass(frozen=True)
class Row:
    """One program on one variant and preset.

    `error_cycles` is the largest of the program and its layers, `error` what that is of the cycles
    it should be, `class_error` the largest difference of a class of a unit over the run's cycles.
    """

    variant: str
    preset: str
    group: str
    program: str
    rtl_cycles: int
    model_cycles: int
    error_cycles: int
    error: float
    class_error: float

    @property
    def passed(self) -> bool:
        """Whether both bars hold."""
        near = self.error_cycles <= CYCLES_BAR or self.error <= RELATIVE_BAR
        return near and self.class_error <= RELATIVE_BAR


def _spans(profile: Profile) -> Iterator[int]:
    """Cycles of the whole run, and between the marks of each unit in the program's order."""
    yield profile.cycles or 0
    for unit in Unit:
        marks = sorted((m.instruction, m.cycle) for m in profile.marks if m.unit is unit)
        yield from (after - before for (_, before), (_, after) in pairwise(marks))


def compare(case: Case, variant: str, preset: str, rtl: Profile, model: Profile) -> Row:
    """Hold one profile against the other."""
    cycles = rtl.cycles or 0
    pairs = list(zip(_spans(model), _spans(rtl), strict=True))
    worst = max(pairs, key=lambda pair: abs(pair[0] - pair[1]) / max(1, pair[1]))
    kinds = (
        abs(model.units[unit].classes[kind] - number)
        for unit, counters in rtl.units.items()
        for kind, number in counters.classes.items()
    )
    return Row(
        variant,
        preset,
        case.group,
        case.name,
        cycles,
        model.cycles or 0,
        abs(worst[0] - worst[1]),
        abs(worst[0] - worst[1]) / max(1, worst[1]),
        max(kinds) / max(1, cycles),
    )


def _cases(variant: Variant, count: int, only: str, left_out: LeftOut) -> list[Case]:
    """All programs of a variant."""
    every = chain(
        stream_cases(variant),
        network_cases(variant, left_out, only),
        zoo_cases(variant),
        vta_cases(variant, left_out if only in "VTA" else LeftOut()),
        random_cases(variant, range(count)),
    )
    return [case for case in every if only in f"{case.group} {case.name}"]


def measure(
    variant: Variant,
    presets: list[str],
    count: int,
    only: str,
    report: Any,
    left_out: LeftOut,
) -> list[Row]:
    """Rows of one variant."""
    cache = cache_folder("rtl")
    device = RtlDevice(variant, cache_dir=cache, report=report)
    truth = RtlTruth(device, cache, ROOT / ".daedal" / "truth")
    cases = _cases(variant, count, only, left_out)
    rows = []
    for preset in presets:
        for start in range(0, len(cases), CHUNK):
            chunk = cases[start : start + CHUNK]
            launches = [case.launch(memory_model(preset)) for case in chunk]
            for case, launch, rtl in zip(chunk, launches, truth.profiles(launches), strict=True):
                memory = np.frombuffer(bytearray(launch.memory), dtype=np.uint8)
                model = count_cycles(launch.program, launch.bases, memory, launch.timing).profile
                rows.append(compare(case, variant.name, preset, rtl, model))
        report(f"{variant.name}, {preset}: {len(cases)} programs")
    return rows


def _table(rows: list[Row]) -> Table:
    """The worst of each group, and how many there are."""
    table = Table(title="cycle model against RTL: the largest errors")
    heads = ("variant", "preset", "programs", "number", "RTL cycles", "error", "", "class error")
    for head in heads:
        table.add_column(head, justify="left" if head in heads[:3] else "right")
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.variant, row.preset, row.group), []).append(row)
    for key, members in groups.items():
        worst = max(members, key=lambda row: row.error)
        table.add_row(
            *key,
            str(len(members)),
            f"{sum(row.rtl_cycles for row in members):,}",
            f"{max(row.error_cycles for row in members)}",
            f"{worst.error:.2%}",
            f"{max(row.class_error for row in members):.2%}",
        )
    return table


def main() -> int:
    """Compare, measure the speed, print, and say whether every bar holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write every row here")
    parser.add_argument("--variants", default=",".join(VARIANTS))
    parser.add_argument("--presets", default="ideal,ddr,slow")
    parser.add_argument("--random", type=int, default=500, help="random programs per variant")
    parser.add_argument("--only", default="", help="programs whose group or name contains this")
    options = parser.parse_args()
    report = Console(stderr=True).print
    rows, left_out = list[Row](), LeftOut()
    for name in options.variants.split(","):
        variant = load_variant(name)
        presets = options.presets.split(",")
        rows += measure(variant, presets, options.random, options.only, report, left_out)
    if not rows:
        left_out.add(f"every program with {options.only!r} in its name", "is missing")
    core = on_one_core()
    speeds = measure_timing(load_variant("vta"), left_out)
    out = Console(width=150)
    out.print(_table(rows))
    for speed in speeds:
        low, high = min(speed.calibration_seconds), max(speed.calibration_seconds)
        bar = "" if speed.bar is None else f" (bar {speed.bar:,.0f})"
        out.print(
            f"{speed.workload}: {speed.median:,.0f} {speed.unit}, {speed.ratio:,.0f} in a "
            f"calibration{bar} of {1000 * low:.1f} to {1000 * high:.1f} ms"
        )
    failed = [row for row in rows if not row.passed]
    for row in failed[:20]:
        out.print(f"missed: {row}")
    largest = max((row.error for row in rows), default=0.0)
    out.print(
        f"{len(rows)} comparisons, {sum(row.rtl_cycles for row in rows):,} cycles; "
        f"the largest error is {largest:.3%}"
    )
    left_out.show(print)
    document = {
        "left_out": left_out.to_json(),
        "largest_error": largest,
        "rows": [asdict(row) for row in rows],
        "speeds": [speed.to_json() for speed in speeds],
        "core": core,
    }
    write_json(options.json, document)
    return int(bool(failed or left_out) or not all(speed.passed for speed in speeds))


if __name__ == "__main__":
    sys.exit(main())
