"""`Oracle`: what is known of one workload's optimum, and the measurements of searches on it."""

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from bench.tuning.truth import MEMORY, NEAR, Cache, inside
from bench.tuning.workloads import TuningWorkload
from daedal.compiler.layers.features import layer_columns
from daedal.compiler.ops.space import Config
from daedal.compiler.tune.candidates import Candidates
from daedal.compiler.tune.cost_model import Columns, Reals
from daedal.compiler.tune.database import Database
from daedal.compiler.tune.search import Search
from daedal.isa.memory_model import PRESETS

__all__ = ["Oracle"]


class Oracle:
    """Answers searches on one workload, as far as it can from what was measured before.

    A configuration whose proved bound is above `NEAR` times the best known is not near. Where a
    search need not know more than that, it is not measured, and the search is told the larger of
    bound and estimate. What searches measure goes to `runs`, so that what `truth` teaches does not
    depend on them.
    """

    def __init__(self, workload: TuningWorkload, truth: Database, runs: Database) -> None:
        space = workload.space
        assert space is not None
        self.workload = workload
        self.space = space
        self._cache = Cache(workload, runs, truth)

    @cached_property
    def candidates(self) -> Candidates:
        """All configurations, by rows."""
        return Candidates(self.space)

    @cached_property
    def columns(self) -> Columns:
        """The features that all models here see."""
        memory = PRESETS[MEMORY]
        return layer_columns(self.space, self.space.all(), self.workload.variant, memory)

    @cached_property
    def bounds(self) -> Reals:
        """Proved lower bounds, by rows."""
        return self.space.bound(self.space.all(), PRESETS[MEMORY])

    @property
    def cycles(self) -> Reals:
        """By rows: what was measured, infinity for what failed, NaN for the rest."""
        return self._by_rows(self._cache.known)

    @property
    def best(self) -> float:
        """The fewest cycles known."""
        return float(np.nanmin(self.cycles))

    @property
    def limit(self) -> float:
        """No configuration takes fewer cycles."""
        return float(min(self.best, self.bounds[np.isnan(self.cycles)].min(initial=np.inf)))

    @property
    def lowest_bound(self) -> float:
        """The lowest of the proved bounds; 0 where nothing is proved."""
        return float(self.bounds.min())

    @property
    def default_cycles(self) -> int:
        """What the compiler takes without tuning."""
        (cycles,) = self._cache([self.space.default])
        assert cycles is not None
        return cycles

    def samples(self) -> tuple[Columns, Reals]:
        """Features and cycles of what `bench.tuning.truth` measured."""
        cycles = self._by_rows(self._cache.given)
        rows = np.flatnonzero(np.isfinite(cycles))
        return {name: column[rows] for name, column in self.columns.items()}, cycles[rows]

    def num_near(self) -> tuple[int, int]:
        """The least and the largest possible number of configurations near the optimum."""
        cycles = self.cycles
        near = int(np.count_nonzero(cycles <= NEAR * self.best))
        open_rows = np.isnan(cycles) & (self.bounds <= NEAR * self.best)
        return near, near + int(np.count_nonzero(open_rows))

    def random_trials(self) -> tuple[float, float, float]:
        """The expected number of uniform draws without replacement until one is near: the least
        and the most possible, and between them an estimate.

        The estimate takes the share of near ones among those drawn at random by
        `bench.tuning.truth.inside` for the share among all that the bounds do not exclude.
        Source: the negative hypergeometric distribution; of N with K marked, the first marked one
        comes at (N + 1) / (K + 1) on average.
        """
        least, most = self.num_near()
        count = len(self.candidates)
        drawn = inside(self.space, self.bounds, NEAR * self.best, count)
        cycles = self.cycles[self.candidates.rows(drawn)]
        unknown = np.isnan(cycles)
        first = int(np.argmax(unknown)) if unknown.any() else len(cycles)
        near = int(np.count_nonzero(cycles[:first] <= NEAR * self.best))
        # Laplace's rule of succession, so that a share of none is not taken for certain.
        share = (near + 1) / (first + 2) if unknown.any() else near / max(first, 1)
        likely = min(max(share * len(drawn), least), most)
        return tuple((count + 1) / (value + 1) for value in (most, likely, least))  # type: ignore[return-value]

    def trials(self, search: Search, *, batch: int, most: int, exact: bool) -> list[float]:
        """The fewest cycles after each measured candidate, until one is near.

        With `exact`, everything is measured; otherwise only what may be near, see above.
        """
        curve: list[float] = []
        while len(curve) < most:
            configs = search.propose(min(batch, most - len(curve)))
            if not configs:
                break
            found = self._answer(configs, exact)
            search.observe(configs, [int(value) if np.isfinite(value) else None for value in found])
            for value in found:
                curve.append(min(value, curve[-1] if curve else np.inf))
                if value <= NEAR * self.best:
                    return curve
        return curve

    def _by_rows(self, known: Mapping[Config, int | None]) -> Reals:
        found = np.full(len(self.candidates), np.nan)
        if known:
            values = [np.inf if cycles is None else cycles for cycles in known.values()]
            found[self.candidates.rows(list(known))] = values
        return found

    def _answer(self, configs: Sequence[Config], exact: bool) -> Reals:
        rows = self.candidates.rows(configs)
        known = self.cycles[rows]
        wanted = np.isnan(known)
        if not exact:
            wanted &= self.bounds[rows] <= NEAR * self.best
        self._cache([config for config, want in zip(configs, wanted, strict=True) if want])
        known = self.cycles[rows]
        told = np.maximum(self.bounds[rows], self.candidates.estimates[rows])
        answer: Reals = np.where(np.isnan(known), told, known)
        return answer
