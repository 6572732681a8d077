"""Area of variants on FPGAs, estimated by Yosys: one row per variant and family.

Usage: python bench/area.py [--variant NAME ...] [--family xc7|ecp5 ...] [--json FILE]

Exit status 1 when `vta` does not fit an xc7z020 (95 % of DSP and block RAM, LUT and FF within).
"""

import argparse
import dataclasses
import json
import sys
import time
from pathlib import Path
from typing import Any

from daedal.hw.synth.estimate import estimate
from daedal.hw.synth.families import DEVICES, CellReport, Family
from daedal.isa.errors import UserError
from daedal.isa.variant import load_variant, shipped_variants

BARS = {("vta", Family.XC7)}
"""What must fit."""


def main() -> int:
    """Estimate, print a table and write the file."""
    parser = argparse.ArgumentParser(description="Area of variants, estimated by Yosys.")
    parser.add_argument("--variant", nargs="+", default=shipped_variants(), metavar="NAME")
    names = [family.value for family in Family]
    parser.add_argument("--family", nargs="+", default=names, choices=names)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    missed = False
    try:
        for name in options.variant:
            variant = load_variant(name)
            for family in map(Family, options.family):
                began = time.monotonic()
                told = f"{name}, "
                report = estimate(
                    variant, family, progress=lambda text, told=told: show(f"{told}{text}")
                )
                seconds = time.monotonic() - began
                rows.append(row_of(name, variant.fingerprint, report, seconds))
                print(line_of(rows[-1]), flush=True)
                missed |= (name, family) in BARS and not report.fits()
    except UserError as error:
        show(f"bench/area.py: {error}")
        return 2
    if options.json is not None:
        text = json.dumps({"area": rows, "missed": missed}, indent=2)
        options.json.write_text(text + "\n", encoding="utf-8")
    return int(missed)


def show(text: str) -> None:
    """Report progress beside the table."""
    print(text, file=sys.stderr, flush=True)


def row_of(name: str, fingerprint: str, report: CellReport, seconds: float) -> dict[str, Any]:
    """One line of the JSON file."""
    values = dataclasses.asdict(report)
    values["family"] = report.family.value
    return {
        "variant": name,
        "fingerprint": fingerprint,
        "device": DEVICES[report.family].name,
        **values,
        "shares": {key: round(share, 4) for key, share in report.shares.items()},
        "fits": report.fits(),
        "seconds": round(seconds, 1),
    }


def line_of(row: dict[str, Any]) -> str:
    """One line of the printed table."""
    cells = "  ".join(f"{key} {row[key]:g} ({share:.0%})" for key, share in row["shares"].items())
    verdict = "fits" if row["fits"] else "does not fit"
    return f"{row['variant']:8} {row['device']:10} {cells}  carry {row['carry']}  {verdict}"


if __name__ == "__main__":
    sys.exit(main())
