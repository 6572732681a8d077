"""Standard streams that are closed or full do not change what a command does."""

import io
import os
import sys
from typing import Any

__all__ = ["prepare_streams"]

_FIRST = 3
"""Descriptors below are those of the standard streams."""


class _Dropping(io.FileIO):
    """Standard error; what cannot be written is dropped, as nobody could be told."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(data)


def prepare_streams() -> None:
    """Open closed streams on the null device, and show characters that the terminal lacks.

    A file that is opened later would otherwise get the descriptor of a stream, and what children
    print would end up in it.
    """
    for number in range(_FIRST):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
    stderr_is_pythons = sys.stderr is sys.__stderr__  # tests put another one in its place
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    elif stderr_is_pythons:
        stream = sys.stderr
        raw = _Dropping(stream.fileno(), "w", closefd=False)
        sys.stderr = io.TextIOWrapper(raw, encoding=stream.encoding, write_through=True)
    for output in (sys.stdout, sys.stderr):
        if isinstance(output, io.TextIOWrapper):
            output.reconfigure(errors="backslashreplace")
