"""`LastLaunch`: what a device's scratchpads hold, so that a launch can leave out its setup."""

from collections.abc import Iterator
from contextlib import contextmanager

from daedal.isa.program import Program

__all__ = ["LastLaunch"]


class LastLaunch:
    """The program that a device has launched last; after a failed launch there is none."""

    def __init__(self) -> None:
        self._program: Program | None = None

    def forget(self) -> None:
        """The scratchpads hold nothing that is known: the machine was reset."""
        self._program = None

    @contextmanager
    def then(self, program: Program) -> Iterator[Program]:
        """Launch `program` in this context.

        It gets what to run: the program without its setup if it was the last one, too.
        """
        last, self._program = self._program, None
        yield program.repeated if last is program else program
        self._program = program
