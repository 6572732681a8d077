"""Progress of place and route, from nextpnr's log; how far a phase is stands in parentheses."""

import re

from daedal.common.time_left import time_left

__all__ = ["PnrProgress"]

_PLACING = re.compile(r"Info: iter=(\d+) steplen")
_REFINING = re.compile(r"Info: +at iteration #(\d+): temp")
_ROUTING = re.compile(r"Info: +\d+ \|[ \d]*\|[ \d]*\| *(\d+)\| *[\d.]+ +([\d.]+)\|")
_KNOWN = 0.1
"""Share of the connections after whose routing the rest is estimated."""


class PnrProgress:
    """Reads the log of one run, line by line."""

    def __init__(self) -> None:
        self._first: tuple[int, float] | None = None
        """Connections left, and seconds of the router, at the first report."""

    def phase_of(self, line: str) -> str | None:
        """What a line of the log says in a few words; None where it says nothing new."""
        if line.startswith("Info: Packing"):
            return "packing"
        if line.startswith("Info: Running Static placer"):
            return "placing"
        if found := _PLACING.match(line):
            return f"placing (pass {found[1]})"
        if found := _REFINING.match(line):
            return f"refining (pass {found[1]})"
        if found := _ROUTING.match(line):
            left = int(found[1])
            return f"routing ({left:,} connections{self._rest(left, float(found[2]))})"
        return None

    def _rest(self, left: int, seconds: float) -> str:
        """How much is left: after some progress, the router's time, if it goes on as before."""
        if self._first is None:
            self._first = left, seconds
        most, begun = self._first
        if not left or most - left < _KNOWN * most:
            return " left"
        return f", {time_left((seconds - begun) * left / (most - left))}"
