"""Speed of the simulators against their bars: ``python bench/kit_speed/sim_speed.py [--json F]``.

Every figure is the median of three on one core. Bars are about the ratio to a calibration kernel
that is timed before every repetition (`bench/calibration.py`), so that they hold on any processor.
The kernel's spread tells how disturbed the run was. The functional simulator is also measured as if
this processor had no VNNI. Exit status 1 when a bar is missed, when two simulators that must agree
do not, or when something was not run.
"""

import argparse
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.json_file import write_json
from bench.kit_speed.functional_speed import measure_functional
from bench.kit_speed.rtl_speed import measure_build, measure_rtl
from bench.kit_speed.timing_speed import measure_timing
from bench.left_out import LeftOut
from bench.speed import Speed, on_one_core
from daedal.isa.variant import load_variant

__all__ = ["main", "speed_table"]


def speed_table(speeds: list[Speed], title: str) -> Table:
    """Median, extremes, ratio to the calibration kernel and bar of each."""
    table = Table(title=title, caption="ratio: in calibrations, or so much in one calibration")
    texts = ("simulator", "workload", "unit")
    for head in (*texts, "median", "least", "most", "ratio", "bar", "calibration ms", ""):
        table.add_column(head, justify="left" if head in texts else "right", no_wrap=True)
    for speed in speeds:
        taken = [_number(x) for x in (speed.median, min(speed.values), max(speed.values))]
        low, high = min(speed.calibration_seconds), max(speed.calibration_seconds)
        table.add_row(
            speed.simulator,
            speed.workload,
            speed.unit,
            *taken,
            _number(speed.ratio),
            "" if speed.bar is None else _number(speed.bar),
            f"{1000 * low:.1f} to {1000 * high:.1f}",
            "" if speed.passed else "missed",
        )
    return table


def _number(value: float) -> str:
    """Three digits at least, thousands in groups, millions as such."""
    if value >= 1e6:
        return f"{value / 1e6:,.3g} M"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def main() -> int:
    """Measure, print, and say whether every bar holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--variant", default="vta")
    parser.add_argument("--no-build", action="store_true", help="do not measure a build")
    parser.add_argument("--no-rtl", action="store_true", help="do not measure the RTL simulators")
    arguments = parser.parse_args()
    variant = load_variant(arguments.variant)
    report = Console(stderr=True).print
    # A build uses every core there is; the rest keeps to one.
    left_out = LeftOut()
    skips_build = arguments.no_build or arguments.no_rtl
    speeds = [] if skips_build else [measure_build(variant, report)]
    core = on_one_core()
    speeds += measure_functional(variant, report)
    speeds += measure_timing(variant, left_out)
    differences: list[str] = []
    if not arguments.no_rtl:
        measured, differences = measure_rtl(variant, report, left_out)
        speeds += measured
    out = Console(width=180)
    out.print(speed_table(speeds, f"Simulators of {variant.name}, on core {core}"))
    for sentence in differences:
        out.print(sentence)
    left_out.show(print)
    document = {
        "speeds": [speed.to_json() for speed in speeds],
        "differences": differences,
        "left_out": left_out.to_json(),
    }
    write_json(arguments.json, document)
    return int(bool(differences or left_out) or not all(speed.passed for speed in speeds))


if __name__ == "__main__":
    sys.exit(main())
