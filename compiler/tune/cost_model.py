"""Cost models: scores of configurations from their features; the lower, the fewer cycles.

`Analytic` is the estimate of the space itself. `Boosted` learns from measured cycles, with the
estimate as one of its features.

Source: T. Chen et al., "Learning to Optimize Tensor Programs", NeurIPS 2018, section 3 (gradient
boosted trees over features of the schedule, with a rank objective); T. Chen and C. Guestrin,
"XGBoost: A Scalable Tree Boosting System", KDD 2016.
"""

from collections.abc import Mapping
from types import ModuleType
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from daedal.common.errors import ToolError
from daedal.compiler.ops.space import Space, Table

__all__ = [
    "ESTIMATE",
    "Analytic",
    "Boosted",
    "Columns",
    "CostModel",
    "Reals",
    "feature_columns",
    "import_xgboost",
]

NUM_TREES = 100

MAX_PAIRS = 256
"""With ranks, how many of the best are compared with all others. XGBoost's 32 learn less."""

Reals = npt.NDArray[np.float64]

Columns = Mapping[str, Reals]
"""Features by name, one value for each configuration."""

ESTIMATE = "estimated_cycles"
"""The feature that is the space's own estimate."""


def feature_columns(space: Space, table: Table) -> Columns:
    """The features of `table`: those of the space, and its estimate."""
    return {**space.features(table), ESTIMATE: space.cycles(table)}


class CostModel(Protocol):
    """Predicts which of several configurations takes fewer cycles."""

    def fit(self, features: Columns, cycles: Reals) -> None:
        """Forget what was learned, and learn from measured configurations."""

    def predict(self, features: Columns) -> Reals:
        """Scores of configurations, finite: the lower, the better. Scores of different calls
        compare as long as nothing is fitted between them."""


class Analytic:
    """The space's estimate, in cycles; learns nothing."""

    def fit(self, features: Columns, cycles: Reals) -> None:
        """Nothing changes."""

    def predict(self, features: Columns) -> Reals:
        """The estimate."""
        return features[ESTIMATE]


class Boosted:
    """Gradient boosted trees that predict the logarithm of the cycles, or with `ranks`, an order.

    Until it is fitted, it predicts the logarithm of the estimate. One thread and a seed make the
    results reproducible. Regression is the default rather than the rank objective of the source: on
    a toy space (tests/support/tuning_spaces.py) annealing needs as many measurements with either,
    and regression orders more pairs of configurations as their cycles.

    Raises
    ------
    ToolError
        XGBoost, which is in the extra ``tune``, is missing.
    """

    def __init__(self, *, seed: int = 0, ranks: bool = False) -> None:
        self._xgboost = import_xgboost()
        self._ranks = ranks
        self._parameters = {
            "objective": "rank:pairwise" if ranks else "reg:squarederror",
            "tree_method": "hist",
            "max_depth": 6,
            "eta": 0.2,
            "nthread": 1,
            "seed": seed,
            "verbosity": 0,
            **({"lambdarank_num_pair_per_sample": MAX_PAIRS} if ranks else {}),
        }
        self._booster: Any = None

    def fit(self, features: Columns, cycles: Reals) -> None:
        """Learn from measured configurations; at least two, or nothing changes."""
        if len(cycles) < 2:
            return
        # The source ranks by throughput relative to the best.
        label = cycles.min() / cycles if self._ranks else np.log(cycles)
        data = self._xgboost.DMatrix(_matrix(features), label=label, nthread=1)
        if self._ranks:
            data.set_group([len(cycles)])
        self._booster = self._xgboost.train(self._parameters, data, num_boost_round=NUM_TREES)

    def predict(self, features: Columns) -> Reals:
        """Logarithms of cycles; with `ranks`, scores without a unit."""
        if self._booster is None:
            return np.log(np.maximum(features[ESTIMATE], 1.0))
        scores: Reals = self._booster.inplace_predict(_matrix(features)).astype(np.float64)
        return -scores if self._ranks else scores


def _matrix(features: Columns) -> npt.NDArray[np.float32]:
    """(configurations, features)"""
    return np.stack(list(features.values()), axis=1).astype(np.float32)


def import_xgboost() -> ModuleType:
    """The module; raises ToolError if it is missing."""
    try:
        import xgboost
    except ImportError:
        raise ToolError(
            "the learned cost model needs xgboost, which is missing; install daedal[tune]"
        ) from None
    module: ModuleType = xgboost
    return module
