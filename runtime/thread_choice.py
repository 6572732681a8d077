"""`ThreadChoice`: whether one thread runs a program, or several do together.

Work alone does not tell. Threads whose caches are far from each other hand over what they computed
slowly: on an AMD Zen 4 whose two cores had no cache in common, ShuffleNet took 1.2 to 1.9 times as
long on both as on one. So a program is timed both ways, again and again, as other programs come and
go. Results are the same either way.
"""

from collections import deque

__all__ = ["ThreadChoice"]

TRIALS = 3
"""Runs of a kind that are remembered; the fastest one counts."""
EVERY, AGAIN = 128, 2
"""After so many runs of the faster kind, there are so many of the other one. The first of them
finds its data in the caches of others."""


class ThreadChoice:
    """Remembers times, and says what the next run is; several threads together come first."""

    def __init__(self) -> None:
        self._seconds = {True: deque[float](maxlen=TRIALS), False: deque[float](maxlen=TRIALS)}
        self._runs = 0

    def together(self) -> bool:
        """Whether several threads make the next run."""
        for kind, seconds in self._seconds.items():
            if len(seconds) < TRIALS:
                return kind
        faster = min(self._seconds[True]) <= min(self._seconds[False])
        return faster if self._runs < EVERY else not faster

    def took(self, together: bool, seconds: float) -> None:
        """A run took so long."""
        self._seconds[together].append(seconds)
        self._runs = (self._runs + 1) % (EVERY + AGAIN)
