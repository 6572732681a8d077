"""The ledger of cycles.

    python bench/changes/ledger.py [PATTERN ...] [--check], or: make ledger

`tests/golden/cycles.toml` holds cycles, launches, instructions and bytes moved of every network and
layer of the bench (`bench.changes.ledger_entries`). The figures are exact and the same on every
machine, so the tests fail on any difference. This command counts the entries again that match a
pattern (``resnet18.*``; without one: all), rewrites the table, the figures that documents quote
(`bench.changes.ledger_quotes`) and the tables of docs/hardware.md, and prints what moved, losses
first. With `--check` it writes nothing.

Exit status 1 when an entry was not counted, or with `--check` when one moved; 2 for a mistake on
the command line.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from rich.console import Console
from rich.table import Table

# Run as a script, Python looks for modules in the script's folder, not in the repository's.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.changes.ledger_entries import ENTRIES
from bench.changes.ledger_models import MissingModel
from bench.changes.ledger_quotes import rewrite_quotes
from bench.changes.ledger_table import LEDGER, Moves, ledger_text, moves, read_ledger
from bench.figures import Figures
from daedal.common.files import write_atomically
from daedal.hw.synth_pages import page

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Count, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("patterns", nargs="*", metavar="PATTERN", help="entries, as in resnet18.*")
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args(arguments)
    patterns: list[str] = options.patterns or ["*"]
    for pattern in patterns:
        if not any(fnmatchcase(key, pattern) for key in ENTRIES):
            parser.error(
                f"a pattern must match an entry, such as {next(iter(ENTRIES))}, and "
                f"{pattern!r} matches none"
            )
    chosen = [key for key in ENTRIES if any(fnmatchcase(key, pattern) for pattern in patterns)]
    table = read_ledger(LEDGER)
    moved, missed = _counted(chosen, table, write=not options.check)
    if not options.check:
        rewrite_documents(table)
    _show(Console(width=120), moved, missed)
    return int(bool(missed) or (options.check and bool(moved)))


def rewrite_documents(table: Mapping[str, Figures]) -> None:
    """Quotes of the ledger, and the tables of docs/hardware.md once the ledger has every entry."""
    rewrite_quotes(table)
    if table.keys() >= ENTRIES.keys():
        page.main()


def _counted(
    keys: Sequence[str], table: dict[str, Figures], *, write: bool
) -> tuple[Moves, list[str]]:
    """What moved, and why entries were not counted; `table` gets the figures, the file after each
    entry, so that an interrupt loses nothing."""
    log = Console(stderr=True, width=120).log
    moved, missed = Moves(), list[str]()
    for key in keys:
        log(key)
        try:
            figures = ENTRIES[key].figures()
        except MissingModel as missing:
            missed.append(f"{key}: {missing}")
            continue
        moved += moves(key, table.get(key), figures)
        table[key] = figures
        if write:
            write_atomically(
                LEDGER, ledger_text({key: table[key] for key in ENTRIES if key in table})
            )
    return moved, missed


def _show(console: Console, moved: Moves, missed: Sequence[str]) -> None:
    """What moved, losses first, and what was not counted."""
    table = Table("entry", "figure", "old", "new", "%")
    for move in sorted(moved, key=lambda move: -move.percent):
        old = "" if move.old is None else f"{move.old:,}"
        percent = "new" if move.old is None else f"{move.percent:+.2f}"
        table.add_row(move.key, move.figure, old, f"{move.new:,}", percent)
    console.print(table if moved else "nothing moved")
    for sentence in missed:
        console.print(f"not counted: {sentence}")


if __name__ == "__main__":
    sys.exit(main())
