"""Every variant in numbers: random programs, coverage, area, simulator.

    python bench/correctness/variants.py [--variant NAME ...] [--count N] [--area] [--json F]

Per variant: random programs that gave the same memory on the RTL (preset `jitter`) as on the
functional simulator, how much of the coverage table they met, cells by Yosys for two devices
(`--area`; minutes each, once), seconds to build the simulator and cycles per second in it. Exit
status 1 when a program differs, or a goal is not met by 200 programs or more.
"""

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

# Run as a script, Python looks for modules in the script's folder, not in the repository's.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.correctness.random_runs import RandomRun, every_variant, run_random_programs
from bench.correctness.rtl_launches import rtl_device
from bench.json_file import write_json
from bench.synthesis.synth_record import synthesis_record
from daedal.common.errors import UserError
from daedal.hw.synth_pages.page import PAGE_TARGETS
from daedal.isa.table import instruction_bits
from daedal.isa.variant import Variant

ENOUGH = 200
"""Programs that are expected to meet every goal."""


def main() -> int:
    """Measure, print a line per variant, write the file; 1 where something was missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    known = every_variant()
    parser.add_argument("--variant", nargs="+", default=list(known), choices=known, metavar="NAME")
    parser.add_argument("--count", type=int, default=ENOUGH, help="random programs per variant")
    parser.add_argument("--area", action="store_true", help="estimate areas, too")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    rows = []
    try:
        for name in options.variant:
            rows.append(measure(known[name], options.count, options.area))
            print(line_of(rows[-1]), flush=True)
    except UserError as error:
        show(f"bench/correctness/variants.py: {error}")
        return 2
    missed = any(row["missed"] for row in rows)
    write_json(options.json, {"variants": rows, "missed": missed})
    return int(missed)


def show(text: str) -> None:
    """Report progress beside the table."""
    print(text, file=sys.stderr, flush=True)


def measure(variant: Variant, count: int, area: bool) -> dict[str, Any]:
    """All numbers of one variant."""
    device = rtl_device(variant, report=show)
    run = run_random_programs(device, range(count), progress=show_run)
    goals_due = count >= ENOUGH
    return {
        "variant": variant.name,
        "fingerprint": variant.fingerprint,
        "macs_per_cycle": variant.macs_per_cycle,
        "bus_bits": variant.bus.data_bits,
        "instruction_bits": instruction_bits(variant),
        **dataclasses.asdict(run),
        "missing": run.missing,
        "cycles_per_second": run.cycles_per_second,
        "cells": areas(variant) if area else "not asked for",
        "missed": run.passed < count or (goals_due and bool(run.missing)),
    }


def show_run(run: RandomRun) -> None:
    """Progress of the random programs."""
    show(str(run))


def areas(variant: Variant) -> dict[str, Any]:
    """Cells by device, as Yosys counts them; kept where `bench/synthesis/synth.py` keeps them."""
    rows = [synthesis_record(variant, target, (), show) for target in PAGE_TARGETS]
    return {row["target"]: {"cells": row["cells"], "fits": not row["shortfalls"]} for row in rows}


def line_of(row: dict[str, Any]) -> str:
    """One variant for the eye."""
    met = sum(count > 0 for count in row["coverage"].values())
    built = f"built in {row['build_seconds']:.0f} s" if row["build_seconds"] else "was built"
    cells = row["cells"] if isinstance(row["cells"], str) else json.dumps(row["cells"])
    return (
        f"{row['variant']:8} {row['macs_per_cycle']:5} MAC/cycle, {row['bus_bits']:3}-bit bus: "
        f"{row['passed']} programs passed, {len(row['mismatches'])} not; {met} of "
        f"{len(row['coverage'])} goals; simulator {built}, {row['cycles_per_second']:,.0f} "
        f"cycles/s; area {cells}{'  MISSED' if row['missed'] else ''}"
    )


if __name__ == "__main__":
    sys.exit(main())
