"""What commands and examples print with: consoles, tables, JSON, the step that is under way."""

import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any

from rich.console import Console, ConsoleOptions
from rich.markup import escape
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from daedal.common.time_left import minutes_left, time_left
from daedal.reports.fitting import fitted_tables, natural_width

__all__ = ["json_text", "make_console", "print_json", "print_tables", "show_progress"]

_FILE_WIDTH = 120

_HOW_FAR = re.compile(r" \((pass )?[0-9][^)]*\)")
"""Of a step, or of several that run at once: a number in parentheses."""

_LONG_S = 5
"""A step that takes longer shows its time."""


def json_text(data: Any) -> str:
    """A result as ``--json`` writes it."""
    return json.dumps(data, indent=1) + "\n"


def print_json(data: Any) -> None:
    """Write a result to standard output."""
    sys.stdout.write(json_text(data))


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


class _Step:
    """The step under way, as a terminal shows it: with the time since it began."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._text, self._name, self._begun = "starting", "", clock()

    def tell(self, text: str) -> None:
        """Show another step, or how far this one is."""
        name = _name(text)
        if name != self._name:
            self._name, self._begun = name, self._clock()
        self._text = text

    def __rich__(self) -> Text:
        seconds = int(self._clock() - self._begun)
        return Text(
            self._text if seconds < _LONG_S else f"{self._text} {seconds // 60}:{seconds % 60:02}"
        )


class _Lines:
    """Lines of a file: one for each step, and one when half of the estimated rest has passed."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._name = ""
        self._minutes: int | None = None

    def tell(self, text: str) -> None:
        """Write a line if there is something new to say."""
        name, minutes = _name(text), minutes_left(text)
        if name == self._name and not self._is_news(minutes):
            return
        self._console.print(
            escape(name if minutes is None else f"{name}, {time_left(60 * minutes)}")
        )
        self._name, self._minutes = name, minutes

    def _is_news(self, minutes: int | None) -> bool:
        """Whether there is an estimate, and it is the first one or half of the last."""
        if minutes is None:
            return False
        return self._minutes is None or 2 * minutes <= self._minutes


def _name(text: str) -> str:
    """A step without how far it is."""
    return _HOW_FAR.sub("", text.partition(":")[0])


@contextmanager
def show_progress(
    console: Console, clock: Callable[[], float] = monotonic
) -> Iterator[Callable[[str], None]]:
    """Give a function that is called with the step under way: ``step``, ``step: how far``, or
    ``step (1 of 2)``, ``step (1 of 2, about 4 minutes left)``.

    A terminal shows it in place, with all that is said, and the time since the step began if that
    is long. A file gets one line for each step, and another one when the estimated rest is half of
    what it was.
    """
    if console.is_terminal:
        step = _Step(clock)
        with console.status(step):
            yield step.tell
    else:
        yield _Lines(console).tell
