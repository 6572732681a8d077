"""What commands and examples print with: consoles, tables, JSON, the step that is under way."""

import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console, ConsoleOptions
from rich.markup import escape
from rich.segment import Segment
from rich.table import Table

from daedal.reports.fitting import fitted_tables, natural_width

__all__ = ["make_console", "print_json", "print_tables", "show_progress"]

_FILE_WIDTH = 120

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
    """Print tables one below the other, without spaces at the ends of lines.

    A table that is wider than a terminal becomes several. A file gets tables as wide as they are.
    """
    for table in tables:
        if not console.is_terminal:
            console.width = max(console.width, natural_width(console, table))
        for number, part in enumerate(fitted_tables(console, table)):
            console.print(_Trimmed(part, skipped=min(number, 1)))


class _Trimmed:
    """A table whose lines end with their last character; the first `skipped` are left out."""

    def __init__(self, table: Table, skipped: int) -> None:
        self._table = table
        self._skipped = skipped

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for line in console.render_lines(self._table, options, pad=False)[self._skipped :]:
            while line and not line[-1].text.strip():
                line.pop()
            if line:
                text, style, control = line.pop()
                yield from (*line, Segment(text.rstrip(), style, control))
            yield Segment.line()


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
