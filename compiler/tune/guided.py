"""`Guided`: what a model scores best first, in diverse batches.

Where annealing visits a part of a space, this search scores all of it before each batch: a model
scores thousands of configurations in the time of one measurement.
"""

from typing import Protocol

import numpy as np

from daedal.compiler.ops.space import Space
from daedal.compiler.tune.candidates import Rows, diverse, fastest_and_spread
from daedal.compiler.tune.cost_model import Reals
from daedal.compiler.tune.search import NumberedSearch, StopRule

__all__ = ["Guided", "SearchModel"]


class SearchModel(Protocol):
    """Scores the configurations of one space, which are rows of `Space.all()`."""

    def fit(self, rows: Rows, cycles: Reals) -> None:
        """Forget what was learned, and learn from measured configurations."""

    def predict(self, rows: Rows) -> Reals:
        """Scores, finite: the lower, the sooner a configuration should be measured."""


class Guided(NumberedSearch):
    """Proposes the candidates that `model` scores best.

    Parameters
    ----------
    model : of `space`; fitted before each batch to what was measured.
    diversity : as in `daedal.compiler.tune.candidates.diverse`.
    most_scored : candidates that are scored before a batch; of larger spaces, some drawn at random.
    most_fitted : measurements that the model is fitted to, as `fastest_and_spread` chooses them.
    """

    def __init__(
        self,
        space: Space,
        model: SearchModel,
        *,
        seed: int = 0,
        stop: StopRule | None = None,
        diversity: float = 0.1,
        most_scored: int = 20_000,
        most_fitted: int = 512,
    ) -> None:
        super().__init__(space, seed=seed, stop=stop)
        self._model = model
        self._diversity = diversity
        self._most_scored = most_scored
        self._most_fitted = most_fitted

    def choose(self, count: int) -> Rows:
        """Open rows with low scores, no two of a batch alike if it can be avoided."""
        self._fit()
        rows = self.draw(self._most_scored)
        scores = self._model.predict(rows)
        best = np.argsort(scores, kind="stable")[: 8 * count]
        return diverse(self.candidates, rows[best], scores[best], count, self._diversity)

    def _fit(self) -> None:
        """Fit the model; a failed candidate counts as twice the most cycles measured."""
        rows = fastest_and_spread(self.observed(), self._most_fitted)
        cycles = self.cycles[rows]
        measured = np.isfinite(cycles)
        if measured.any():
            self._model.fit(rows, np.where(measured, cycles, 2 * cycles[measured].max()))
