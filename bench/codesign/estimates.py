"""Estimated areas and clocks of variants against synthesis and routing.

    python bench/codesign/estimates.py [--area N] [--clock N] [--seeds K] [--options N] [--most LUT]
        [--json F]

Draws variants with a seed of their own, which no table of `daedal.codesign` has, of at most
`--most` LUTs and at most the device. Synthesizes the first N, routes the N smallest of `--clock`
with K seeds each, and compares them with the estimates; the same for N of `--options`, variants
which have tables, lane reductions, wide results, products that read OUT or weights of 4 bits,
which are not routed. ``bench/codesign/held_out_*.json`` keep
what was measured, with a hash of its Verilog, so that an interrupted run goes on; N of 0 compares
only those that are kept. The table has the errors relative to the measured amounts, `objective`
being the share of the device of the resource of which most is used, and how often the routed clock
is in its interval. The exit status is 1 where nothing was measured, or a bar is missed: areas
within 5 % on average and 10 % at worst, clocks within 10 % and 20 %.
"""

import argparse
import math
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from amaranth.hdl import UnusedElaboratable
from rich.console import Console
from rich.table import Table as Printed

# Run as a script, Python looks for modules in the script's folder, not in the repository's.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.codesign.area_data import Table, drawn
from bench.codesign.clock_data import Routes
from bench.json_file import write_json
from daedal.codesign.hardware.area import area_model
from daedal.codesign.hardware.clock import clock_model
from daedal.common.errors import ExploreError
from daedal.hw.emit import TOP_MODULE
from daedal.hw.synth.families import DEVICES, RESOURCES, Family
from daedal.isa.variant import Variant

FOLDER = Path(__file__).resolve().parent
FAMILY = Family.ECP5
SEED, OPTIONS_SEED = 2027, 2028
"""Of the draws, and of those with options; those of the tables have 2026."""
FIRST = 14
"""Draws with lower numbers showed what the model lacked: they are in the tables now."""
LAST = 1_000
AREA_BARS = (0.05, 0.10)
CLOCK_BARS = (0.10, 0.20)
"""The mean of the errors, and the worst."""


@dataclass(frozen=True)
class Errors:
    """Relative errors of one quantity, estimated against measured."""

    name: str
    errors: tuple[float, ...]
    bars: tuple[float, float]

    @property
    def mean(self) -> float:
        """Of the sizes of the errors."""
        return float(np.mean(np.abs(self.errors)))

    @property
    def worst(self) -> float:
        """The largest size."""
        return float(np.max(np.abs(self.errors)))

    @property
    def bias(self) -> float:
        """The mean with its sign: positive where too much is estimated."""
        return float(np.mean(self.errors))

    @property
    def met(self) -> bool:
        """Whether both bars are."""
        return self.mean <= self.bars[0] and self.worst <= self.bars[1]


def relative(estimated: float, measured: float) -> float:
    """The error; of nothing measured, 0 where nothing was estimated."""
    if measured == 0:
        return 0.0 if estimated == 0 else math.inf
    return estimated / measured - 1


def area_errors(
    estimated: Sequence[Mapping[str, float]], measured: Sequence[Mapping[str, float]]
) -> list[Errors]:
    """Of each resource, and of the largest share of the device."""
    device = DEVICES[FAMILY]

    def objective(used: Mapping[str, float]) -> float:
        return max(used[name] / getattr(device, name) for name in RESOURCES)

    pairs = list(zip(estimated, measured, strict=True))
    found = [
        Errors(name, tuple(relative(guess[name], used[name]) for guess, used in pairs), AREA_BARS)
        for name in RESOURCES
    ]
    shares = tuple(relative(objective(guess), objective(used)) for guess, used in pairs)
    return [*found, Errors("objective", shares, AREA_BARS)]


def held_out(number: int) -> Variant:
    """Variant `number` of those that no table has."""
    return drawn(number, FAMILY, SEED)


def held_out_options(number: int) -> Variant:
    """Variant `number` of those that no table has, with options."""
    return drawn(number, FAMILY, OPTIONS_SEED, options=True)


def measure_areas(
    table: Table, numbered: Callable[[int], Variant], count: int, most_lut: float
) -> None:
    """Synthesize the first `count` variants that are small enough and not measured yet.

    Raises ExploreError where too few of the numbers up to `LAST` are.
    """
    for number in range(FIRST, LAST + 1):
        if count == 0:
            return
        variant = numbered(number)
        (used,) = area_model(FAMILY)([variant])
        fits = all(used[name] <= getattr(DEVICES[FAMILY], name) for name in RESOURCES)
        if fits and used["lut"] <= most_lut:
            table.add(number, variant, TOP_MODULE)
            count -= 1
    if count:
        raise ExploreError(
            f"--most must admit {count} more of the machines {FIRST} to {LAST}, and {most_lut:.0f} "
            "LUT do not; choose more"
        )


def compared(table: Table, suffix: str) -> list[Errors]:
    """Errors of each quantity over a table's machines; `suffix` ends their names."""
    if not table.rows:
        return []
    measured = [row["parts"][TOP_MODULE] for row in table.rows.values()]
    estimated = area_model(FAMILY)([table.variant(number) for number in table.rows])
    errors = area_errors(estimated, measured)
    return [replace(item, name=item.name + suffix) for item in errors]


def measure_clocks(table: Table, routes: Routes, count: int, seeds: int) -> None:
    """Route the smallest of the synthesized variants."""
    found = sorted(table.rows.items(), key=lambda item: item[1]["parts"][TOP_MODULE]["lut"])
    for number, _ in found[:count]:
        routes.route(table.variant(number), seeds)


def show(console: Console, found: Sequence[Errors]) -> None:
    """A row for each quantity."""
    printed = Printed("quantity", "variants", "mean", "worst", "bias", "bars", "")
    for item in found:
        mean, worst = item.bars
        printed.add_row(
            item.name,
            str(len(item.errors)),
            f"{item.mean:.1%}",
            f"{item.worst:.1%}",
            f"{item.bias:+.1%}",
            f"{mean:.0%}, {worst:.0%}",
            "met" if item.met else "missed",
        )
    console.print(printed)


def main() -> int:
    """Measure, compare, judge."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--area", type=int, default=20, metavar="N")
    parser.add_argument("--clock", type=int, default=6, metavar="N")
    parser.add_argument("--seeds", type=int, default=3, metavar="K")
    parser.add_argument("--options", type=int, default=20, metavar="N")
    parser.add_argument("--most", type=float, default=math.inf, metavar="LUT")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore", UnusedElaboratable)
    console = Console()
    table = Table("held_out", FAMILY, FOLDER)
    with_options = Table("held_out_options", FAMILY, FOLDER)
    routes = Routes(FOLDER / f"held_out_routes_{FAMILY.value}.json")
    try:
        measure_areas(table, held_out, options.area, options.most)
        measure_areas(with_options, held_out_options, options.options, options.most)
    except ExploreError as error:
        parser.error(str(error))
    measure_clocks(table, routes, options.clock, options.seeds)

    found = [*compared(table, ""), *compared(with_options, " with options")]
    if routes.rows:
        routed = [routes.variant(row) for row in routes.rows]
        clocks = clock_model(FAMILY)(routed, area_model(FAMILY)(routed))
        medians = [float(np.median(row["mhz"])) for row in routes.rows]
        pairs = list(zip(clocks, medians, strict=True))
        errors = tuple(relative(clock.mhz, mhz) for clock, mhz in pairs)
        found.append(Errors("clock", errors, CLOCK_BARS))
        inside = sum(clock.low <= mhz <= clock.high for clock, mhz in pairs)
        console.print(f"{inside} of {len(pairs)} clocks are in their interval")
    show(console, found)
    rows: dict[str, Any] = {item.name: list(item.errors) for item in found}
    write_json(options.json, rows)
    return int(not found or not all(item.met for item in found))


if __name__ == "__main__":
    sys.exit(main())
