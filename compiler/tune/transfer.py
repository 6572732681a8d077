"""`Transfer`: one model that learns from all layers and variants, and starts every new search warm.

Its memory is a bounded number of samples of every task (`Samples`): whatever is learned next, the
model is fitted to all of them, so nothing is forgotten. `warm` makes the model of one search, a
`Surrogate` that begins with what all others taught.

Source: T. Chen et al., "Learning to Optimize Tensor Programs", NeurIPS 2018, section 4 (a global
model for all workloads, and a local one); D. Rolnick et al., "Experience Replay for Continual
Learning", NeurIPS 2019.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from daedal.compiler.tune.cost_model import Columns, Reals, import_xgboost
from daedal.compiler.tune.features import REFERENCE, analytic, seen_by_model
from daedal.compiler.tune.samples import Matrix, Samples, Training, matrix_of
from daedal.compiler.tune.surrogate import Surrogate

__all__ = ["Transfer"]

TREES = 200
RIDGE = 5.0
"""Weight of the coefficients' squares, times that of the samples of one task."""


@dataclass(frozen=True)
class _Linear:
    """A linear model of differences within tasks."""

    means: Reals
    """(features,): what stands for a missing feature."""
    coefficients: Reals
    """(features,)"""

    def __call__(self, matrix: Matrix) -> Reals:
        """(configurations,) from (configurations, features)."""
        found: Reals = np.where(np.isnan(matrix), self.means, matrix) @ self.coefficients
        return found


@dataclass(frozen=True)
class _Taught:
    """A linear model of features, and trees that add what it misses.

    Trees alone approximate by steps what is proportional to a feature, and order few of the
    configurations that no task has come near; linear models alone miss what features do together.
    """

    names: tuple[str, ...]
    linear: _Linear
    booster: Any

    def __call__(self, columns: Columns) -> Reals:
        """Logarithms, of which only differences within a task mean something."""
        matrix = matrix_of(columns, self.names)
        found: Reals = self.linear(matrix) + self.booster.inplace_predict(matrix)
        return found


class Transfer:
    """Learns from the samples of all tasks.

    Parameters
    ----------
    samples : what earlier runs learned from.
    seed : of the trees. One thread and a seed make the results reproducible.
    prior : whether the model predicts how far the cycles are from the `analytic` estimate;
        otherwise it predicts the cycles, up to a factor for each task, and sees neither estimate
        nor bound.

    Raises
    ------
    ToolError
        XGBoost, which is in the extra ``tune``, is missing.
    """

    def __init__(
        self, samples: Samples | None = None, *, seed: int = 0, prior: bool = True
    ) -> None:
        self.samples = Samples() if samples is None else samples
        self._prior = prior
        self._xgboost = import_xgboost()
        self._seed = seed
        self._taught: _Taught | None = None
        self._stale = len(self.samples) > 0

    def learn(self, task: str, features: Columns, cycles: Reals) -> None:
        """Replace what is known of a task, such as a workload on a variant; features are those of
        `daedal.compiler.tune.features`."""
        self.samples.add(task, features, cycles)
        self._stale = True

    def warm(self, columns: Columns) -> Surrogate:
        """A model of the configurations with these features, with what was learned so far.

        While nothing was learned, it expects the `analytic` estimate.
        """
        if self._stale:
            self._taught = self._train(self.samples.training(prior=self._prior))
            self._stale = False
        nothing = np.zeros(len(columns[REFERENCE]))
        reference = analytic(columns) if self._prior else nothing
        taught = nothing if self._taught is None else self._taught(columns)
        names = seen_by_model(columns, prior=self._prior)
        return Surrogate(reference, taught, matrix_of(columns, names))

    def _train(self, data: Training) -> _Taught:
        """The linear model first, and trees of what is left."""
        linear = _linear(data)
        left = data.centered(data.targets - linear(data.matrix))
        parameters = {
            "objective": "reg:squarederror",
            "base_score": 0.0,
            "tree_method": "hist",
            "max_depth": 6,
            "eta": 0.1,
            "min_child_weight": 0.5,
            "subsample": 0.8,
            "colsample_bytree": 0.5,
            "nthread": 1,
            "seed": self._seed,
            "verbosity": 0,
        }
        matrix = self._xgboost.DMatrix(data.matrix, label=left, weight=data.weights, nthread=1)
        booster = self._xgboost.train(parameters, matrix, num_boost_round=TREES)
        return _Taught(data.names, linear, booster)


def _linear(data: Training) -> _Linear:
    """A ridge regression, in which each feature has the same spread."""
    known = ~np.isnan(data.matrix)
    filled = np.where(known, data.matrix, 0).astype(np.float64)
    means = filled.sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    inputs = data.centered(np.where(known, filled, means))
    total, num_tasks = float(data.weights.sum()), int(data.tasks.max()) + 1
    spread = np.sqrt(data.weights @ inputs**2 / total)
    scale = np.where(spread > 1e-6, 1 / np.maximum(spread, 1e-6), 0)
    scaled = inputs * scale
    gram = scaled.T @ (data.weights[:, None] * scaled) + RIDGE * total / num_tasks * np.eye(
        len(scale)
    )
    coefficients = np.linalg.solve(gram, scaled.T @ (data.weights * data.targets))
    return _Linear(means, np.asarray(scale * coefficients, np.float64))
