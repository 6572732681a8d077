"""What commands and examples print with: consoles, tables, JSON, the step that is under way."""

import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

__all__ = ["make_console", "print_json", "print_tables", "print_wide", "show_progress"]

_FILE_WIDTH = 120
_WIDEST = 1000

_HOW_FAR = re.compile(r" \((pass )?[0-9][^)]*\)")
"""Of a step, or of several that run at once: a number in parentheses."""


def print_json(data: Any) -> None:
    """Write a result to standard output."""
    sys.stdout.write(json.dumps(data, indent=1) + "\n")


def make_console(*, stderr: bool = False) -> Console:
    """A console that wraps no text, and has room for the tables where it writes into a file."""
    console = Console(stderr=stderr, soft_wrap=True, highlight=False)
    if not console.is_terminal:
        console.width = _FILE_WIDTH
    return console


def print_tables(console: Console, *tables: Table) -> None:
    """Print tables one below the other."""
    for table in tables:
        console.print(table)


def print_wide(console: Console, table: Table) -> None:
    """Print a table; a file gets all of its columns, however wide they are."""
    if not console.is_terminal:
        needed = Measurement.get(console, console.options.update(max_width=_WIDEST), table).maximum
        console.width = max(console.width, needed)
    console.print(table)


@contextmanager
def show_progress(console: Console) -> Iterator[Callable[[str], None]]:
    """Give a function that is called with the step under way: ``step``, ``step: how far``, or
    ``step (1 of 2)``.

    A terminal shows it in place, with all that is said; a file gets one line for each step.
    """
    if console.is_terminal:
        with console.status("starting") as status:
            yield lambda text: status.update(escape(text))
        return
    last = ""

    def report(text: str) -> None:
        nonlocal last
        step = _HOW_FAR.sub("", text.partition(":")[0])
        if step != last:
            console.print(escape(step))
            last = step

    yield report
