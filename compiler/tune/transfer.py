"""`Transfer`: one model that learns from all layers and variants, and starts every new one warm.

Its memory is a bounded number of samples of every task (`Samples`): whatever is learned next, the
trees are fitted to all of them, so nothing is forgotten. `Warm` is the model of one search: the
shared trees, and further ones that are fitted to what this search measured.

Source: T. Chen et al., "Learning to Optimize Tensor Programs", NeurIPS 2018, section 4 (a global
model for all workloads, and a local one); D. Rolnick et al., "Experience Replay for Continual
Learning", NeurIPS 2019.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from daedal.compiler.tune.cost_model import Columns, Reals, import_xgboost
from daedal.compiler.tune.features import BOUND, OVERHEAD, REFERENCE
from daedal.compiler.tune.samples import Samples, Training, matrix_of

__all__ = ["Transfer", "Warm"]

SHARED_TREES = 200
OWN_TREES = 40
REPLAYED = 512
"""Samples of other tasks among which a search's own are learned."""


@dataclass(frozen=True)
class _Trees:
    """A booster and the features that it was fitted to."""

    names: tuple[str, ...]
    booster: Any


class Transfer:
    """Gradient boosted trees over the samples of all tasks.

    Parameters
    ----------
    samples : what earlier runs learned from.
    seed : of the trees. One thread and a seed make the results reproducible.
    prior : whether the trees predict how far the cycles are from `REFERENCE`; otherwise they
        predict the cycles, up to a factor for each task, and see neither estimate nor bound.

    Raises
    ------
    ToolError
        XGBoost, which is in the extra ``tune``, is missing.
    """

    def __init__(
        self, samples: Samples | None = None, *, seed: int = 0, prior: bool = True
    ) -> None:
        self.samples = Samples() if samples is None else samples
        self.prior = prior
        self._xgboost = import_xgboost()
        self._seed = seed
        self._trees: _Trees | None = None
        self._stale = len(self.samples) > 0

    def learn(self, task: str, features: Columns, cycles: Reals) -> None:
        """Replace what is known of a task, such as a workload on a variant; features are those of
        `daedal.compiler.tune.features`."""
        self.samples.add(task, features, cycles)
        self._stale = True

    def warm(self) -> "Warm":
        """A model for one search, with what was learned so far."""
        if self._stale:
            self._trees = self.train(self.samples.training(prior=self.prior), SHARED_TREES)
            self._stale = False
        return Warm(self, self._trees)

    def train(self, data: Training, trees: int, base: _Trees | None = None) -> _Trees:
        """`trees` trees after those of `base`, which has the same features."""
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
            # Trees after those of `base` would otherwise depend on what was trained before.
            "seed_per_iteration": True,
            "verbosity": 0,
        }
        matrix = self._xgboost.DMatrix(
            data.matrix, label=data.targets, weight=data.weights, nthread=1
        )
        booster = self._xgboost.train(
            parameters,
            matrix,
            num_boost_round=trees,
            xgb_model=None if base is None else base.booster,
        )
        return _Trees(data.names, booster)


class Warm:
    """A `CostModel` for one search that begins with the trees of `transfer`.

    While nothing was learned at all, it predicts the estimate, or the bound where that is more.
    """

    def __init__(self, transfer: Transfer, base: _Trees | None) -> None:
        self._transfer = transfer
        self._base = base
        self._trees = base

    def fit(self, features: Columns, cycles: Reals) -> None:
        """Forget what this search taught, and learn from its measured configurations; at least
        two, or nothing changes."""
        transfer = self._transfer
        if len(cycles) < 2:
            return
        data = transfer.samples.training(
            prior=transfer.prior, own=(features, cycles), most=REPLAYED
        )
        if self._base is not None:
            columns = dict(zip(data.names, data.matrix.T, strict=True))
            names = self._base.names
            data = Training(names, matrix_of(columns, names), data.targets, data.weights)
        self._trees = transfer.train(data, OWN_TREES, self._base)

    def predict(self, features: Columns) -> Reals:
        """Logarithms of cycles, up to a constant."""
        count = len(features[REFERENCE])
        scores = np.zeros(count)
        if self._transfer.prior:
            scores = np.log(np.maximum(features[REFERENCE], 1.0))
            if self._trees is None:
                scores = scores + np.maximum(features[OVERHEAD] - features[BOUND], 0)
        if self._trees is not None:
            found = self._trees.booster.inplace_predict(matrix_of(features, self._trees.names))
            scores = scores + found.astype(np.float64)
        return scores
