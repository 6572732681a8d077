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
PRIOR_SAMPLES = 2.0
"""What all others taught is trusted as if so many measurements of the search had confirmed it."""


@dataclass(frozen=True)
class _Trees:
    """A booster and the features that it was fitted to."""

    names: tuple[str, ...]
    booster: Any

    def predict(self, columns: Columns) -> Reals:
        """What the trees add to the score of each configuration."""
        found: Reals = self.booster.inplace_predict(matrix_of(columns, self.names))
        return found.astype(np.float64)


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

    def train(self, data: Training, trees: int, margins: Reals | None = None) -> _Trees:
        """`trees` trees; with `margins`, of what is left of the targets above these."""
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
        matrix = self._xgboost.DMatrix(
            data.matrix,
            label=data.targets,
            weight=data.weights,
            base_margin=margins,
            nthread=1,
        )
        booster = self._xgboost.train(parameters, matrix, num_boost_round=trees)
        return _Trees(data.names, booster)


class Warm:
    """A `CostModel` for one search that begins with the trees of `transfer`.

    The measurements of the search decide how far these are trusted: `trust` is the factor of their
    predictions that fits best, from 0, where only the prior is left, to 1. Trees of the search's
    own learn what remains. While nothing was learned at all, it predicts the estimate, or the bound
    where that is more.
    """

    def __init__(self, transfer: Transfer, base: _Trees | None) -> None:
        self._transfer = transfer
        self._base = base
        self._own: _Trees | None = None
        self.trust = 1.0

    def fit(self, features: Columns, cycles: Reals) -> None:
        """Forget what this search taught, and learn from its measured configurations; at least
        two, or nothing changes."""
        transfer, count = self._transfer, len(cycles)
        if count < 2:
            return
        data = transfer.samples.training(
            prior=transfer.prior, own=(features, cycles), most=REPLAYED
        )
        margins = None
        if self._base is not None:
            columns = dict(zip(data.names, data.matrix.T, strict=True))
            margins = self._base.predict(columns)
            weights = data.weights[-count:]
            # Only differences between configurations are predicted.
            taught = margins[-count:] - np.average(margins[-count:], weights=weights)
            # Without a prior, nothing else would order what was not measured.
            if transfer.prior:
                self.trust = _trust(taught, data.targets[-count:], weights)
            margins[-count:] = self.trust * taught
        self._own = transfer.train(data, OWN_TREES, margins)

    def predict(self, features: Columns) -> Reals:
        """Logarithms of cycles, up to a constant."""
        scores = np.zeros(len(features[REFERENCE]))
        if self._transfer.prior:
            scores = np.log(np.maximum(features[REFERENCE], 1.0))
            if self._base is None and self._own is None:
                scores = scores + np.maximum(features[OVERHEAD] - features[BOUND], 0)
        if self._base is not None:
            scores = scores + self.trust * self._base.predict(features)
        if self._own is not None:
            scores = scores + self._own.predict(features)
        return scores


def _trust(taught: Reals, found: Reals, weights: Reals) -> float:
    """The factor of `taught`, from 0 to 1, that fits `found` best, by least squares, after
    `PRIOR_SAMPLES` samples that it fits exactly."""
    size = float(np.average(taught**2, weights=weights))
    if size <= 0:
        return 1.0
    factor = float(np.average(taught * found, weights=weights)) / size
    return float(np.clip(np.average([1, factor], weights=[PRIOR_SAMPLES, len(found)]), 0, 1))
