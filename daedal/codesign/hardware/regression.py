"""`Regression`: a Gaussian process over a few numbers, with its uncertainty.

For tables of tens to hundreds of rows: a linear trend plus a smooth remainder (Rasmussen and
Williams, Gaussian Processes for Machine Learning, chapters 2 and 5). Length and noise are those
whose leave-one-out errors are least, by the closed form of section 5.4.2 there.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

__all__ = ["Regression"]

Array = npt.NDArray[np.float64]

_LENGTHS = (1.0, 2.0, 4.0, 8.0)
_NOISES = (1e-4, 1e-3, 1e-2, 1e-1)
_TREND = 200.0
"""Variance of the trend's weights, relative to the remainder's: outside the table, it counts."""


@dataclass(frozen=True)
class Regression:
    """Predicts a number from features; made by `fit`.

    Attributes
    ----------
    deviation : standard deviation of the leave-one-out errors.
    scale : standard deviation of the remainder's prior.
    """

    features: Array
    center: Array
    spread: Array
    mean: float
    length: float
    noise: float
    inverse: Array
    weights: Array
    deviation: float
    scale: float = 1.0

    @classmethod
    def fit(cls, features: Array, targets: Array, like: "Regression | None" = None) -> "Regression":
        """From rows of features, (rows, features), and a target for each.

        Length and noise are those of `like` where it is given: a sixteenth of the work.
        """
        center, spread = features.mean(axis=0), features.std(axis=0)
        spread = np.where(spread > 0, spread, 1.0)
        scaled = (features - center) / spread
        mean = float(targets.mean())
        scale = float(targets.std()) or 1.0
        best = None
        choices: Iterable[tuple[float, float]] = product(_LENGTHS, _NOISES)
        if like is not None:
            choices = [(like.length, like.noise / like.scale**2)]
        for length, noise in choices:
            kernel = scale**2 * (_kernel(scaled, scaled, length) + noise * np.eye(len(scaled)))
            inverse: Array = np.linalg.inv(kernel).astype(np.float64)
            weights = np.asarray(inverse @ (targets - mean), dtype=np.float64)
            errors = weights / np.diag(inverse)
            loss = float(np.mean(errors**2))
            if best is None or loss < best[0]:
                best = loss, length, noise, inverse, weights
        assert best is not None
        loss, length, noise, inverse, weights = best
        return cls(
            scaled, center, spread, mean, length, noise * scale**2, inverse, weights * scale**2,
            loss**0.5, scale,
        )  # fmt: skip

    def predict(self, features: Array) -> Array:
        """The expected target of each row."""
        scaled = (features - self.center) / self.spread
        found: Array = self.mean + _kernel(scaled, self.features, self.length) @ self.weights
        return found

    def uncertainty(self, features: Array) -> Array:
        """The standard deviation of what is expected of each row."""
        scaled = (features - self.center) / self.spread
        across = self.scale**2 * _kernel(scaled, self.features, self.length)
        alone = self.scale**2 * (1 + _TREND * (1 + (scaled**2).sum(axis=1)) / scaled.shape[1])
        left = alone - np.einsum("ij,jk,ik->i", across, self.inverse, across, optimize=True)
        found: Array = np.sqrt(np.maximum(left, 0.0))
        return found


def _kernel(left: Array, right: Array, length: float) -> Array:
    squares = ((left[:, None, :] - right[None, :, :]) ** 2).sum(axis=2)
    trend = _TREND * (1 + left @ right.T) / left.shape[1]
    found: Array = np.exp(-squares / (2 * length**2 * left.shape[1] / 4)) + trend
    return found
