"""`Budget`: how many trials a run may make, and for how long."""

import time

from daedal.common.errors import TuningError
from daedal.tuning.task import BATCH

__all__ = ["Budget"]


class Budget:
    """Trials and seconds from now on; None for no limit.

    Raises
    ------
    TuningError
        Nothing can be measured in it.
    """

    def __init__(self, trials: int | None = None, seconds: float | None = None) -> None:
        if trials is not None and trials < 1:
            raise TuningError(f"trials must be at least 1, not {trials}; leave the option out")
        if seconds is not None and not seconds > 0:
            raise TuningError(f"seconds must be more than 0, not {seconds:g}; leave the option out")
        self._trials = trials
        self._seconds = seconds
        self._begin = time.monotonic()

    def batch(self, spent: int) -> int:
        """Trials of the next batch after `spent` of them; 0 at the end."""
        if self._seconds is not None and time.monotonic() - self._begin > self._seconds:
            return 0
        return BATCH if self._trials is None else min(BATCH, self._trials - spent)

    def text(self, spent: int) -> str:
        """``12 of 64 trials, 3 of 60 s``"""
        trials = f"{spent}" if self._trials is None else f"{spent} of {self._trials}"
        seconds = f"{time.monotonic() - self._begin:.0f}"
        return f"{trials} trials, {seconds}" + (
            " s" if self._seconds is None else f" of {self._seconds:g} s"
        )
