"""Progress of Yosys, from the steps that its script announces, and how long the rest takes."""

from collections.abc import Callable
from time import monotonic

from daedal.common.time_left import time_left

__all__ = ["YosysProgress"]


class YosysProgress:
    """Reads the output of one run, line by line.

    Parameters
    ----------
    mark : what the line of a step begins with; the step follows, as ``coarse (2 of 8)``.
    shares : of each step, the share of the whole time that has passed when it begins. The rest is
        told once that is enough to estimate it.
    clock : seconds.
    """

    def __init__(
        self, mark: str, shares: dict[str, float], clock: Callable[[], float] = monotonic
    ) -> None:
        self._mark, self._shares, self._clock = mark, shares, clock
        self._begun: float | None = None

    def step_of(self, line: str) -> str | None:
        """The step that a line announces, with an estimate; None for any other line."""
        if not line.startswith(self._mark):
            return None
        text = line.removeprefix(self._mark).strip()
        now = self._clock()
        if self._begun is None:
            self._begun = now
        share = self._shares.get(text.partition(" ")[0], 0.0)
        if share < _KNOWN:
            return text
        return f"{text[:-1]}, {time_left((now - self._begun) * (1 - share) / share)})"


_KNOWN = 0.1
"""Share of the whole after which the rest is estimated."""
