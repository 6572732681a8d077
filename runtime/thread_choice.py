"""`ThreadChoice`: whether one thread runs a program, or several do together.

Work alone does not tell. Threads whose caches are far from each other hand over what they computed
slowly: on an AMD Zen 4 whose two cores had no cache in common, ShuffleNet took 1.2 to 1.9 times as
long on both as on one. So a program is timed both ways, again and again, as other programs come and
go. Results are the same either way.
"""

from collections import deque

__all__ = ["ThreadChoice"]

TRIALS, REMEMBERED = 3, 8
"""Runs of a kind before one is chosen, and those that are remembered; the fastest one counts. A few
in a row may be slow as something else runs."""
AGAIN = 2
"""Runs of the slower kind, now and then. The first of them finds its data in other caches."""
FIRST, MOST = 16, 256
"""Runs of the faster kind before that: more each time that it stays the faster one."""


class ThreadChoice:
    """Remembers times, and says what the next run is; several threads together come first."""

    def __init__(self) -> None:
        self._seconds = {
            True: deque[float](maxlen=REMEMBERED),
            False: deque[float](maxlen=REMEMBERED),
        }
        self._faster = True
        self._every, self._runs = FIRST, 0

    def together(self) -> bool:
        """Whether several threads make the next run."""
        for kind, seconds in self._seconds.items():
            if len(seconds) < TRIALS:
                return kind
        return self._faster if self._runs < self._every else not self._faster

    def took(self, together: bool, seconds: float) -> None:
        """A run took so long."""
        self._seconds[together].append(seconds)
        if not all(self._seconds.values()):
            return
        faster = min(self._seconds[True]) <= min(self._seconds[False])
        self._runs += 1
        if faster != self._faster:
            self._faster, self._every, self._runs = faster, FIRST, 0
        elif self._runs >= self._every + AGAIN:
            self._every, self._runs = min(2 * self._every, MOST), 0
