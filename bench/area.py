"""Area of variants on FPGAs, estimated by Yosys, and what the area of `vta` buys.

    python bench/area.py [--variant NAME ...] [--family xc7|ecp5 ...] [--no-alternatives]
                         [--json FILE] [--update docs/area.json]

A row per variant and family; then `vta` on its board beside versions with one parameter changed
(`bench.area_alternatives`), with the cycles of the same work. The first time, Yosys takes minutes
for each; answers and simulators are kept in `.daedal/`. `--update` replaces in a file what was
measured now and keeps the rest; `make docs` makes the tables of docs/hardware.md from it. Exit
status 1 when what must fit does not (95 % of DSP and block RAM, LUT and FF within).
"""

import argparse
import dataclasses
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.area_alternatives import ALTERNATIVES, cycles_of_work
from daedal.hw.synth.cache import AreaCache, yosys_version
from daedal.hw.synth.families import DEVICES, CellReport, Family
from daedal.hw.synth.page import PAGE_FAMILIES, alternatives_table, variants_table
from daedal.isa.errors import UserError
from daedal.isa.files import write_atomically
from daedal.isa.variant import Variant, load_variant, shipped_variants
from daedal.sim.rtl.device import RtlDevice, default_cache_dir
from daedal.sim.rtl.verilog import kept_verilog

__all__ = ["BARS", "ON_BOARD", "area_of", "main", "merged"]

BARS = {("vta", Family.XC7), ("ecp5", Family.ECP5)}
"""What must fit."""
ON_BOARD = ("vta", Family.XC7)
"""Whose alternatives are measured, and where."""

Record = dict[str, Any]


def main() -> int:
    """Estimate, print the tables and write the files."""
    parser = argparse.ArgumentParser(description="Area of variants, estimated by Yosys.")
    parser.add_argument("--variant", nargs="+", default=shipped_variants(), metavar="NAME")
    names = [family.value for family in PAGE_FAMILIES]
    parser.add_argument("--family", nargs="+", default=names, choices=names)
    parser.add_argument("--no-alternatives", action="store_true", help="variants alone")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was measured")
    parser.add_argument("--update", type=Path, metavar="FILE", help="replace what was measured")
    options = parser.parse_args()
    families = [Family(name) for name in options.family]
    wanted = ON_BOARD[0] in options.variant and ON_BOARD[1] in families
    try:
        variants = [load_variant(name) for name in options.variant]
        data = measure(variants, families, alternatives=wanted and not options.no_alternatives)
    except UserError as error:
        show(f"bench/area.py: {error}")
        return 2
    print_tables(data)
    if options.json is not None:
        write_atomically(options.json, json.dumps(data, indent=1) + "\n")
    if options.update is not None:
        text = options.update.read_text(encoding="utf-8") if options.update.is_file() else "{}"
        whole = merged(json.loads(text), data)
        write_atomically(options.update, json.dumps(whole, indent=1) + "\n")
    return int(bool(data["missed"]))


def measure(variants: list[Variant], families: list[Family], *, alternatives: bool) -> Record:
    """Everything that the file holds."""
    rows = [area_of(variant, family) for variant in variants for family in families]
    data = {"area": rows, "missed": missed_of(rows)}
    if alternatives:
        data["alternatives"] = measure_alternatives()
    return data


def missed_of(rows: list[Record]) -> list[str]:
    """What of `BARS` does not fit."""
    return [
        f"{row['variant']} on {row['device']}"
        for row in rows
        if (row["variant"], Family(row["family"])) in BARS and not row["fits"]
    ]


def area_of(variant: Variant, family: Family) -> Record:
    """A row: one variant on one family."""

    def report(text: str) -> None:
        show(f"{variant.name} {variant.fingerprint}, {text}")

    verilog = kept_verilog(variant, default_cache_dir(), report, family=family)
    cache = AreaCache(default_cache_dir().parent / "synth")
    return row_of(variant, verilog, cache.synthesize(verilog, family, progress=report))


def row_of(variant: Variant, verilog: str, report: CellReport) -> Record:
    """One row of the file. `cells` are what Yosys says; all resources follow from them."""
    return {
        "variant": variant.name,
        "fingerprint": variant.fingerprint,
        "yosys": yosys_version(),
        "verilog": hashlib.sha256(verilog.encode()).hexdigest()[:16],
        "device": DEVICES[report.family].name,
        **dataclasses.asdict(report),
        "family": report.family.value,
        "shares": {key: round(share, 4) for key, share in report.shares.items()},
        "fits": report.fits(),
    }


def measure_alternatives() -> list[Record]:
    """A row per alternative of `vta`: area on its board, and cycles."""
    name, family = ON_BOARD
    rows = []
    for alternative in ALTERNATIVES:
        variant = alternative.of(load_variant(name))
        show(f"{name}, {alternative.label}")
        device = RtlDevice(variant, report=show)
        rows.append(
            {
                "label": alternative.label,
                "changes": dict(alternative.changes),
                **area_of(variant, family),
                "cycles": cycles_of_work(device),
            }
        )
    return rows


def merged(old: Record, new: Record) -> Record:
    """`old` with what was measured in `new`; variants that are not shipped leave."""
    rows = {(row["variant"], row["family"]): row for row in (*old.get("area", ()), *new["area"])}
    kept = [rows[key] for key in sorted(rows) if key[0] in shipped_variants()]
    return old | new | {"area": kept, "missed": missed_of(kept)}


def show(text: str) -> None:
    """Report progress beside the tables."""
    print(text, file=sys.stderr, flush=True)


def print_tables(data: Record) -> None:
    """The tables of docs/hardware.md, for the eye."""
    tables = [("Area by Yosys, before place and route", *variants_table(data["area"]))]
    if "alternatives" in data:
        title = f"{ON_BOARD[0]} on {DEVICES[ON_BOARD[1]].name}, one parameter changed at a time"
        tables.append((title, *alternatives_table(data["alternatives"])))
    for title, head, rows in tables:
        table = Table(title=title)
        for column in head:
            table.add_column(column, justify="left" if column == head[0] else "right")
        for row in rows:
            table.add_row(*row)
        Console(width=160).print(table)
    for text in data["missed"]:
        print(f"MISSED: {text} does not fit")


if __name__ == "__main__":
    sys.exit(main())
