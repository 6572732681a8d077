"""`Guided`: what a model scores best first, in diverse batches.

Where annealing visits a part of a space, this search scores all of it before each batch: a model
scores thousands of configurations in the time of one measurement.
"""

import numpy as np
import numpy.typing as npt

from daedal.compiler.space import Space
from daedal.compiler.tune.candidates import Rows, diverse
from daedal.compiler.tune.cost_model import Columns, CostModel
from daedal.compiler.tune.search import NumberedSearch, StopRule

__all__ = ["Guided"]


class Guided(NumberedSearch):
    """Proposes the candidates that `model` scores best.

    Parameters
    ----------
    columns : features of all candidates, as `model` expects them.
    model : fitted before each batch to what was measured.
    diversity : as in `daedal.compiler.tune.annealing.Annealing`.
    most_scored : candidates that are scored before a batch; of larger spaces, some drawn at random.
    """

    def __init__(
        self,
        space: Space,
        columns: Columns,
        model: CostModel,
        *,
        seed: int = 0,
        stop: StopRule | None = None,
        diversity: float = 0.1,
        most_scored: int = 20_000,
    ) -> None:
        super().__init__(space, seed=seed, stop=stop)
        self._columns = columns
        self._model = model
        self._diversity = diversity
        self._most_scored = most_scored

    def choose(self, count: int) -> Rows:
        """Open rows with low scores, no two of a batch alike if it can be avoided."""
        self._fit()
        rows = self.draw(self._most_scored)
        scores = self._model.predict(self._features(rows))
        best = np.argsort(scores, kind="stable")[: 8 * count]
        return diverse(self.candidates, rows[best], scores[best], count, self._diversity)

    def _features(self, rows: Rows) -> dict[str, npt.NDArray[np.float64]]:
        return {name: column[rows] for name, column in self._columns.items()}

    def _fit(self) -> None:
        """Fit the model; a failed candidate counts as twice the most cycles measured."""
        rows = self.observed()
        cycles = self.cycles[rows]
        measured = np.isfinite(cycles)
        if measured.any():
            cycles = np.where(measured, cycles, 2 * cycles[measured].max())
            self._model.fit(self._features(rows), cycles)
