"""What commands and examples share: consoles, the step that is under way, results, checks."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from daedal.isa.errors import UserError

__all__ = ["Memory", "check_outputs", "make_console", "print_json", "show_progress"]

_FILE_WIDTH = 120


class Memory(StrEnum):
    """Presets of the memory model that the command line offers."""

    ideal = "ideal"
    ddr = "ddr"
    slow = "slow"
    jitter = "jitter"


def check_outputs(*outputs: Path | None) -> None:
    """Refuse outputs that cannot be written before the work is done, not after."""
    for path in outputs:
        if path is not None and (path.is_dir() or not os.access(path.parent, os.W_OK | os.X_OK)):
            raise UserError(
                f"an output must be a file in a folder that exists and can be written, not "
                f"{str(path)!r}; make the folder or choose another path"
            )


def print_json(data: Any) -> None:
    """Write a result to standard output."""
    sys.stdout.write(json.dumps(data, indent=1) + "\n")


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
