"""`Search`: which configurations to measure next; and what all searches have in common.

`daedal.compiler.tune.guided` is the search of the kit; bench/tuning/searches has those with which
it is compared.
"""

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from daedal.common.errors import TuningError
from daedal.compiler.ops.space import Config, Space
from daedal.compiler.tune.candidates import Candidates, Rows

__all__ = ["NumberedSearch", "Search", "SearchFactory", "StopRule"]


class Search(Protocol):
    """Proposes configurations of one space, in batches.

    1. No configuration is proposed that was proposed or observed before.
    2. An empty batch ends the search: the space is exhausted, or a stop rule holds.
    3. Proposals depend on the space, the seed and the observations alone.
    """

    def propose(self, count: int) -> list[Config]:
        """Up to `count` configurations to measure."""

    def observe(self, configs: Sequence[Config], cycles: Sequence[int | None]) -> None:
        """Learn the cycles of one batch, None for configurations that failed. They need not have
        been proposed."""


class SearchFactory(Protocol):
    """Makes a search; the classes of searches are factories."""

    def __call__(self, space: Space, *, seed: int) -> Search:
        """A search that has proposed nothing yet."""


@dataclass(frozen=True)
class StopRule:
    """Stop when the last `batches` observed batches together improved the fewest cycles by at most
    the share `improvement`.

    Raises TuningError for a number of batches below 1, or a share outside of [0, 1).
    """

    batches: int
    improvement: float = 0.0

    def __post_init__(self) -> None:
        if self.batches < 1:
            raise TuningError(f"a stop rule must count at least one batch, not {self.batches}")
        if not 0 <= self.improvement < 1:
            raise TuningError(
                f"a stop rule's improvement must be a share from 0 to 1, not {self.improvement}"
            )

    def holds(self, bests: Sequence[float]) -> bool:
        """Whether to stop; `bests` has the fewest cycles after each batch, infinity for none."""
        if len(bests) <= self.batches or not np.isfinite(bests[-1]):
            return False
        return bests[-1] >= bests[-1 - self.batches] * (1 - self.improvement)


class NumberedSearch(abc.ABC):
    """A search over numbered candidates: the memory of what was proposed and measured."""

    def __init__(self, space: Space, *, seed: int = 0, stop: StopRule | None = None) -> None:
        self.candidates = Candidates(space)
        self.rng = np.random.default_rng(seed)
        self.open: npt.NDArray[np.bool_] = np.ones(len(self.candidates), dtype=np.bool_)
        """Which candidates were neither proposed nor observed."""
        self.cycles: npt.NDArray[np.float64] = np.full(len(self.candidates), np.nan)
        """What was measured: infinity for failed candidates, NaN for those not observed."""
        self._stop = stop
        self._bests: list[float] = []

    @abc.abstractmethod
    def choose(self, count: int) -> Rows:
        """Between 1 and `count` different open rows; at least `count` are open."""

    def propose(self, count: int) -> list[Config]:
        """See `Search`."""
        count = min(count, int(np.count_nonzero(self.open)))
        if count < 1 or (self._stop is not None and self._stop.holds(self._bests)):
            return []
        rows = self.choose(count)
        assert 1 <= len(rows) <= count and len(np.unique(rows)) == len(rows)
        assert self.open[rows].all(), "a candidate is proposed once"
        self.open[rows] = False
        return self.candidates.configs(rows)

    def observe(self, configs: Sequence[Config], cycles: Sequence[int | None]) -> None:
        """See `Search`. Raises ScheduleError if one is not of this space, or does not fit."""
        values = [np.inf if value is None else float(value) for value in cycles]
        assert len(values) == len(configs) and all(value > 0 for value in values)
        rows = self.candidates.rows(configs)
        self.open[rows] = False
        self.cycles[rows] = values
        self._bests.append(min(values, default=np.inf))
        if len(self._bests) > 1:
            self._bests[-1] = min(self._bests[-2:])

    def observed(self) -> Rows:
        """The rows observed so far, best first; failed ones last."""
        rows = np.flatnonzero(~np.isnan(self.cycles))
        return rows[np.argsort(self.cycles[rows], kind="stable")]

    def draw(self, count: int) -> Rows:
        """Up to `count` open rows, drawn uniformly."""
        rows = np.flatnonzero(self.open)
        return self.rng.permutation(rows)[:count]
