"""`Contributions`: what each feature of a schedule contributes to a layer's predicted cycles.

Boosted trees learn the cycles of measured schedules relative to the default of their layer, from
their features relative to that default, so that layers of different sizes teach each other. The
trees' Shapley values split a prediction exactly into one term for each feature.

Source: S. Lundberg et al., "From local explanations to global understanding with explainable AI for
trees", Nature Machine Intelligence 2, 2020 (TreeSHAP, which XGBoost computes as `pred_contribs`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from daedal.compiler.ops.space import Config, Space
from daedal.compiler.tune.cost_model import Boosted

__all__ = ["Contributions", "Schedules"]

NUM_TREES = 150
NUM_FOLDS = 4
OTHERS_WEIGHT = 0.25
"""Of a schedule of another layer, where one of the layer itself has 1."""

_PARAMETERS = {
    "objective": "reg:squarederror",
    "tree_method": "exact",
    "max_depth": 4,
    "eta": 0.1,
    "nthread": 1,
    "seed": 0,
    "verbosity": 0,
}

Reals = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Schedules:
    """Measured schedules of one layer, its default among them."""

    space: Space
    default: Config
    cycles: Mapping[Config, int]

    def features(self, configs: Sequence[Config]) -> dict[str, Reals]:
        """The features of `configs`, without the space's estimate of cycles.

        The estimate is made from the others, and would take their contributions.
        """
        found = self.space.features(self.space.table(configs))
        return {name: column for name, column in found.items() if name != "estimate"}

    def relative(self, configs: Sequence[Config], names: Sequence[str]) -> Reals:
        """(configs, names): logarithms of features over those of the default; NaN for others."""
        found, default = self.features(configs), self.features([self.default])
        missing = np.full(len(configs), np.nan)
        columns = [
            np.log1p(found[name]) - np.log1p(default[name]) if name in found else missing
            for name in names
        ]
        return np.stack(columns, axis=1)

    @property
    def labels(self) -> Reals:
        """Logarithms of cycles over those of the default."""
        cycles = np.array(list(self.cycles.values()), dtype=np.float64)
        return np.log(cycles / self.cycles[self.default])


class Contributions:
    """Learns from the schedules of a layer, and of others on the same variant.

    Attributes
    ----------
    error : how far predictions of schedules that were not learned from are off, as the median of
        the absolute logarithms (0.02: 2 %), in cross-validation with `NUM_FOLDS` parts.

    Raises
    ------
    ToolError
        XGBoost, which is in the extra ``tune``, is missing.
    """

    def __init__(self, own: Schedules, others: Sequence[Schedules]) -> None:
        Boosted()  # refuses where xgboost is missing
        import xgboost

        self._xgboost = xgboost
        self._own = own
        self.names = list(own.features([own.default]))
        self._others = [
            (item.relative(list(item.cycles), self.names), item.labels) for item in others
        ]
        rows, labels = own.relative(list(own.cycles), self.names), own.labels
        self._booster = self._trained(rows, labels)
        self.error = self._cross_validated(rows, labels)

    def difference(self, config: Config) -> dict[str, float]:
        """What each feature contributes to the logarithm of `config`'s cycles over the default's.

        The sum is the predicted difference.
        """
        rows = self._own.relative([self._own.default, config], self.names)
        data = self._xgboost.DMatrix(rows, nthread=1)
        default, best = self._booster.predict(data, pred_contribs=True)[:, :-1].astype(np.float64)
        return dict(zip(self.names, (best - default).tolist(), strict=True))

    def _trained(self, rows: Reals, labels: Reals) -> Any:
        parts = [(rows, labels), *self._others]
        weights = [
            np.full(len(part), 1.0 if at == 0 else OTHERS_WEIGHT)
            for at, (_, part) in enumerate(parts)
        ]
        data = self._xgboost.DMatrix(
            np.concatenate([part for part, _ in parts]),
            label=np.concatenate([part for _, part in parts]),
            weight=np.concatenate(weights),
            nthread=1,
        )
        return self._xgboost.train(_PARAMETERS, data, num_boost_round=NUM_TREES)

    def _cross_validated(self, rows: Reals, labels: Reals) -> float:
        fold = np.random.default_rng(0).permutation(len(labels)) % NUM_FOLDS
        errors = []
        for number in range(NUM_FOLDS):
            held = fold == number
            booster = self._trained(rows[~held], labels[~held])
            found = booster.predict(self._xgboost.DMatrix(rows[held], nthread=1))
            errors.append(np.abs(found - labels[held]))
        return float(np.median(np.concatenate(errors)))
