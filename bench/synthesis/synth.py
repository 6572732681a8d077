"""Fmax and area of every variant, what follows from them, and what area buys.

    python bench/synthesis/synth.py [--only VARIANT ...] [--seeds N] [--clock MHZ]
        [--no-alternatives]
                          [--json FILE] [--update docs/synthesis.json]

Per variant: on an ECP5-85F, routed out of context with packed multipliers, or with multipliers in
logic where only those fit, the best of some seeds, or what does not fit; area on an xc7z020; cycles
of ResNet-18. Of `ecp5` also the whole design of a board, in context, for a clock of `--clock` MHz.
Then `vta` on its board beside versions with one parameter changed
(`bench.codesign.area_alternatives`), with the cycles of the same work, and what the options of
`attention` take and give (`bench.synthesis.option_costs`). All of it takes hours the first time;
every answer is kept as soon as it is there, so that a run that was stopped goes on, and the next
one takes seconds. `--seeds 0` routes nothing. `--json` is written after every step. `--update`
replaces in a file what was measured now and keeps the rest; `make docs` makes the tables of
docs/hardware.md from it. Exit status 1 when what must fit does not (95 % of DSP and block RAM, LUT
and FF within), could not be routed, or was not run.
"""

import argparse
import itertools
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.codesign.area_alternatives import ALTERNATIVES, kept_cycles
from bench.kept import CYCLES
from bench.left_out import LeftOut
from bench.synthesis.option_costs import ESTIMATED, estimated_options
from bench.synthesis.synth_board import BAR_MHZ, BOARD, VARIANT, board_record
from bench.synthesis.synth_cycles import resnet18_cycles
from bench.synthesis.synth_record import forms_of, overfull, synthesis_record
from daedal.common.errors import ToolError, UserError
from daedal.common.files import write_atomically
from daedal.hw.synth.families import DEVICES, Target
from daedal.hw.synth.tools import NEXTPNR
from daedal.hw.synth_pages.ledger_cycles import OPTIONS_NETWORK
from daedal.hw.synth_pages.page import PAGE_TARGETS
from daedal.hw.synth_pages.stale import explained_anew
from daedal.hw.synth_pages.tables import (
    alternatives_table,
    area_table,
    board_sentence,
    options_table,
    routed_table,
)
from daedal.isa.variant import Variant, load_variant, shipped_variants

__all__ = ["BARS", "ON_BOARD", "main", "merged", "missed_of"]

BARS = {("vta", "xc7z020"), ("ecp5", "ecp5-85f")}
"""What must fit."""
ON_BOARD = ("vta", "xc7z020")
"""Whose alternatives are measured, and where."""

Record = dict[str, Any]


def main() -> int:
    """Measure, print the tables and write the files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", default=shipped_variants(), metavar="VARIANT")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="routes of a variant")
    parser.add_argument("--clock", type=float, default=BAR_MHZ, metavar="MHZ", help="of the board")
    parser.add_argument("--no-alternatives", action="store_true", help="variants alone")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was measured")
    parser.add_argument("--update", type=Path, metavar="FILE", help="replace what was measured")
    options = parser.parse_args()
    if options.seeds < 0:
        parser.error(f"--seeds must be 0 or more, not {options.seeds}")
    data: Record = {"variants": [], "missed": []}
    left_out = LeftOut()

    def keep(records: list[Record]) -> None:
        data.update(variants=records, missed=missed_of(records, data.get("board")))
        write(options.json, data)

    seeds = range(1, options.seeds + 1)
    try:
        variants = [load_variant(name) for name in options.only]
        if options.seeds:
            NEXTPNR.require("Fmax")
        if VARIANT in options.only and seeds:
            data["board"] = measure_board(options.clock, seeds)
        measure_variants(variants, seeds, keep)
        if ON_BOARD[0] in options.only and not options.no_alternatives:
            data["alternatives"] = measure_alternatives(left_out)
        if ESTIMATED[0] in options.only and not options.no_alternatives:
            data["options"] = measure_options(left_out)
    except UserError as error:
        show(f"bench/synthesis/synth.py: {error}")
        return 2
    except KeyboardInterrupt:
        show("stopped; what was done is kept, the same command goes on from there")
        return 130
    print_tables(data)
    write(options.json, data)
    if options.update is not None:
        text = options.update.read_text(encoding="utf-8") if options.update.is_file() else "{}"
        write(options.update, merged(json.loads(text), data))
    left_out.show(print)
    return int(bool(data["missed"] or left_out))


def write(path: Path | None, data: Record) -> None:
    """Write a file, where one is wanted."""
    if path is not None:
        write_atomically(path, json.dumps(data, indent=1) + "\n")


def measure_board(clock_mhz: float, seeds: Sequence[int]) -> Record:
    """The board's record; ``failed`` where the design could not be built."""
    try:
        return board_record(clock_mhz, seeds, teller(load_variant(VARIANT), BOARD))
    except UserError as error:
        return {"variant": VARIANT, "board": BOARD, "failed": str(error), "met": False}


def measure_variants(
    variants: Sequence[Variant], seeds: Sequence[int], keep: Callable[[list[Record]], None]
) -> None:
    """A record per variant, device and form; `keep` gets all there are after every step.

    Areas and cycles come first, as routes take longest. A variant's next form is measured where one
    needs too many multipliers, and nothing else.
    """
    forms: list[tuple[Variant, str]] = []
    records: list[Record] = []
    for target, variant in itertools.product(PAGE_TARGETS, variants):
        for form in forms_of(variant, target):
            tell = teller(form, target)
            cycles = resnet18_cycles(form, tell)
            record = {**synthesis_record(form, target, (), tell), "resnet18": cycles}
            forms.append((form, target))
            records.append(record)
            keep(records)
            if overfull(record) != {"dsp"}:
                break
    for record, (form, target) in zip(records, forms, strict=True):
        if not seeds or target != PAGE_TARGETS[0]:
            continue
        try:
            made = synthesis_record(form, target, seeds, teller(form, target))
        except ToolError as error:
            made = {"failed": str(error)}
        record.update(made)
        keep(records)


def teller(form: Variant, where: str) -> Callable[[str], None]:
    """Progress of one form on one device; what is said twice in a row is shown once."""
    last = ""

    def tell(text: str) -> None:
        nonlocal last
        if text != last:
            show(f"{form.name}, {form.array.multiplier_style}, {where}: {text}")
        last = text

    return tell


def measure_alternatives(left_out: LeftOut) -> list[Record]:
    """A row per alternative of `vta`: area on its board, and cycles."""
    name, target = ON_BOARD
    rows = []
    for alternative in ALTERNATIVES:
        variant = alternative.of(load_variant(name))
        tell = teller(variant, f"{target}, {alternative.label}")
        rows.append(
            {
                "label": alternative.label,
                "changes": dict(alternative.changes),
                **synthesis_record(variant, target, (), tell),
                "cycles": kept_cycles(variant, CYCLES, tell, left_out),
            }
        )
    return rows


def measure_options(left_out: LeftOut) -> list[Record]:
    """What the options of `attention` take and give."""

    def report(variant: Variant, target: str, label: str) -> Callable[[str], None]:
        return teller(variant, f"{target}, {label}")

    return estimated_options(report, left_out)


def missed_of(records: list[Record], board: Record | None = None) -> list[str]:
    """What of `BARS` fits in no form, what cannot be routed, and a board below its clock."""
    fitting = {(row["variant"], row["target"]) for row in records if not row["shortfalls"]}
    there = {(row["variant"], row["target"]) for row in records}
    small = [
        f"{variant} does not fit an {DEVICES[Target(target).family].name}"
        for variant, target in sorted(BARS & there - fitting)
    ]
    failed = [
        f"{row['variant']} with {row['multipliers']} multipliers: {row['failed']}"
        for row in records
        if "failed" in row
    ]
    return small + failed + ([] if board is None or board["met"] else [board_sentence(board)])


def merged(old: Record, new: Record) -> Record:
    """`old` with what was measured in `new`; variants that are not shipped leave."""
    measured = {row["variant"] for row in new["variants"]}
    kept = [row for row in old.get("variants", ()) if row["variant"] not in measured]
    order = {name: number for number, name in enumerate(shipped_variants())}
    rows = [row for row in (*kept, *new["variants"]) if row["variant"] in order]
    rows.sort(key=lambda row: (PAGE_TARGETS.index(row["target"]), order[row["variant"]]))
    whole = explained_anew(old | new | {"variants": rows})
    return whole | {"missed": missed_of(rows, whole.get("board"))}


def show(text: str) -> None:
    """Report progress beside the tables."""
    print(text, file=sys.stderr, flush=True)


def print_tables(data: Record) -> None:
    """The tables of docs/hardware.md, for the eye."""
    records = data["variants"]
    routed, other = PAGE_TARGETS
    tables = [
        (f"{routed}, routed out of context", *routed_table(records, routed)),
        (f"{other}, by Yosys' estimate", *area_table(records, other)),
    ]
    if "alternatives" in data:
        title = f"{ON_BOARD[0]} on {ON_BOARD[1]}, one parameter changed at a time"
        tables.append((title, *alternatives_table(data["alternatives"])))
    if "options" in data:
        title = f"{ESTIMATED[0]} on {ESTIMATED[1]}, without options"
        tables.append((title, *options_table(data["options"], OPTIONS_NETWORK)))
    for title, head, rows in tables:
        table = Table(title=title)
        for column in head:
            table.add_column(column, justify="left" if column == head[0] else "right")
        for row in rows:
            table.add_row(*row)
        Console(width=180).print(table)
    if "board" in data:
        print(board_sentence(data["board"]))
    for text in data["missed"]:
        print(f"MISSED: {text}")


if __name__ == "__main__":
    sys.exit(main())
