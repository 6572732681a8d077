"""`Exhaustive`: every configuration, in the order of the estimate; and `find_optimum`, which leaves
out those that proved lower bounds exclude.

Source: A. H. Land and A. G. Doig, "An Automatic Method of Solving Discrete Programming Problems",
Econometrica 28(3), 1960: branch and bound, here with leaves only.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from bench.tuning.searches.tuner import Measure, Trial
from daedal.common.errors import TuningError
from daedal.compiler.ops.space import Config, Space
from daedal.compiler.tune.candidates import Candidates, Rows
from daedal.compiler.tune.cost_model import Reals
from daedal.compiler.tune.search import NumberedSearch

__all__ = ["Exhaustive", "Optimum", "find_optimum"]


class Exhaustive(NumberedSearch):
    """Proposes the configurations with the fewest estimated cycles first. Uses no randomness."""

    def choose(self, count: int) -> Rows:
        """The open rows with the lowest estimates."""
        rows = np.flatnonzero(self.open)
        return rows[np.argsort(self.candidates.estimates[rows], kind="stable")[:count]]


@dataclass(frozen=True)
class Optimum:
    """The best configuration known, and what is known about the others."""

    config: Config
    cycles: int
    measured: int
    """Configurations that were measured, those known before included."""
    excluded: int
    """Configurations whose bound is not below `cycles`."""
    limit: float
    """No configuration takes fewer cycles; `cycles` itself if it is certified."""

    @property
    def certified(self) -> bool:
        """Whether every other configuration was measured or is excluded."""
        return self.limit >= self.cycles

    @property
    def gap(self) -> float:
        """The share of `limit` by which `cycles` may exceed the optimum."""
        return self.cycles / self.limit - 1 if self.limit else np.inf


def find_optimum(
    space: Space,
    measure: Measure,
    bounds: Reals,
    *,
    trials: int,
    known: Mapping[Config, int | None] | None = None,
    report: Callable[[list[Trial]], None] | None = None,
    batch: int = 1,
) -> Optimum:
    """Measure the configurations that may be better than the best one, up to `trials`.

    Those with the lowest estimates come first, so that an early best excludes many of the others.

    Parameters
    ----------
    bounds : (configurations,), in the order of ``space.all()``: no configuration takes fewer
        cycles. The result is certified only as far as that is true.
    known, report : as `bench.tuning.searches.tuner.tune` has them.

    Raises
    ------
    TuningError
        Nothing is known, and `trials` is below 1 or nothing could be measured.
    """
    candidates = Candidates(space)
    assert bounds.shape == (len(candidates),), "a bound for each configuration"
    cycles = np.full(len(candidates), np.nan)
    if known:
        cycles[candidates.rows(list(known))] = [_number(value) for value in known.values()]
    order = np.argsort(np.maximum(candidates.estimates, bounds), kind="stable")
    best = _fewest(cycles)
    while trials > 0:
        unknown = order[np.isnan(cycles[order]) & (bounds[order] < best)]
        rows = unknown[: min(batch, trials)]
        if not len(rows):
            break
        configs = candidates.configs(rows)
        found = measure(configs)
        cycles[rows] = [_number(value) for value in found]
        trials -= len(rows)
        done = []
        for config, value in zip(configs, found, strict=True):
            best = min(best, _number(value))
            done.append(Trial(config, value, int(best) if np.isfinite(best) else None))
        if report is not None:
            report(done)
    if not np.isfinite(best):
        raise TuningError(
            "an optimum needs at least one configuration that could be measured; allow more trials"
        )
    missing = np.isnan(cycles)
    (config,) = candidates.configs(np.flatnonzero(cycles == best)[:1])
    return Optimum(
        config,
        int(best),
        int(np.count_nonzero(~missing)),
        int(np.count_nonzero(missing & (bounds >= best))),
        float(min(best, bounds[missing].min(initial=np.inf))),
    )


def _number(cycles: int | None) -> float:
    return np.inf if cycles is None else float(cycles)


def _fewest(cycles: Reals) -> float:
    return float(np.nanmin(cycles, initial=np.inf))
