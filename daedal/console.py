"""Consoles of the command line and the examples: results, and the step that is under way."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape

__all__ = ["make_console", "show_progress"]

_FILE_WIDTH = 120


def make_console(*, stderr: bool = False) -> Console:
    """A console that wraps no text, and has room for the tables where it writes into a file."""
    console = Console(stderr=stderr, soft_wrap=True, highlight=False)
    if not console.is_terminal:
        console.width = _FILE_WIDTH
    return console


@contextmanager
def show_progress(console: Console) -> Iterator[Callable[[str], None]]:
    """Give a function that is called with the step under way: ``step`` or ``step: how far``.

    A terminal shows it in place, with all that is said; a file gets one line for each step.
    """
    if console.is_terminal:
        with console.status("starting") as status:
            yield lambda text: status.update(escape(text))
        return
    last = ""

    def report(text: str) -> None:
        nonlocal last
        step = text.partition(":")[0]
        if step != last:
            console.print(escape(step))
            last = step

    yield report
