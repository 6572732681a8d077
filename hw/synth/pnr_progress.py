"""Progress of place and route, from nextpnr's log; how far a phase is stands in parentheses."""

import re
from collections.abc import Callable
from time import monotonic

from daedal.common.time_left import time_left

__all__ = ["PnrProgress"]

_PLACING = re.compile(r"Info: iter=(\d+) steplen")
_PLACING_BY_TIMING = re.compile(r"Info: +at iteration #(\d+), type")
_REFINING = re.compile(r"Info: +at iteration #(\d+): temp")
_ROUTING = re.compile(r"Info: +\d+ \|[ \d]*\|[ \d]*\| *(\d+)\| *[\d.]+ +([\d.]+)\|")
_KNOWN = 0.1
"""Share of the work of a phase after which the rest is estimated."""

_PLACERS = ("Info: Running Static placer", "Info: Running main analytical placer")

# The placer ends once its cells hardly overlap; the penalty of overlaps grows by 2.5 % in each
# pass: 504 of them for `smallest`, 529 for `tiny`; to refine took 19 passes. A board with `tiny`
# took 15 passes by timing.
_PLACING_PASSES = 500
_PASSES_BY_TIMING = 15
_REFINING_PASSES = 20


class PnrProgress:
    """Reads the log of one run, line by line. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._begun: dict[str, tuple[int, float]] = {}
        """First pass that a phase reported, and when."""
        self._first: tuple[int, float] | None = None
        """Connections left, and seconds of the router, at the first report."""

    def phase_of(self, line: str) -> str | None:
        """What a line of the log says in a few words; None where it says nothing new."""
        if line.startswith("Info: Packing"):
            return "packing"
        if line.startswith(_PLACERS):
            return "placing"
        if found := _PLACING.match(line):
            return self._passes("placing", int(found[1]), _PLACING_PASSES)
        if found := _PLACING_BY_TIMING.match(line):
            return self._passes("placing", int(found[1]), _PASSES_BY_TIMING)
        if found := _REFINING.match(line):
            return self._passes("refining", int(found[1]), _REFINING_PASSES)
        if found := _ROUTING.match(line):
            left = int(found[1])
            return f"routing ({left:,} connections{self._rest(left, float(found[2]))})"
        return None

    def _passes(self, phase: str, number: int, most: int) -> str:
        """The pass of a phase that takes about `most`, and how long that is."""
        now = self._clock()
        first, begun = self._begun.setdefault(phase, (number, now))
        if number - first < _KNOWN * most or number >= most:
            return f"{phase} (pass {number})"
        rest = time_left((now - begun) * (most - number) / (number - first))
        return f"{phase} (pass {number} of about {most}, {rest})"

    def _rest(self, left: int, seconds: float) -> str:
        """How much is left: after some progress, the router's time, if it goes on as before."""
        if self._first is None:
            self._first = left, seconds
        most, begun = self._first
        if not left or most - left < _KNOWN * most:
            return " left"
        return f", {time_left((seconds - begun) * left / (most - left))}"
