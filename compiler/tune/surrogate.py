"""`Surrogate`: a Gaussian process over the configurations of one space, for one search.

Source: C. Rasmussen and C. Williams, "Gaussian Processes for Machine Learning", MIT Press 2006,
sections 2.2 and 2.7 (explicit basis functions); N. Srinivas et al., "Gaussian Process Optimization
in the Bandit Setting", ICML 2010 (scores that are optimistic by the uncertainty).
"""

import numpy as np
import numpy.typing as npt

from daedal.compiler.tune.candidates import Rows
from daedal.compiler.tune.cost_model import Reals

__all__ = ["Surrogate"]

TRUST = 0.5
TRUST_DEVIATION = 0.5
"""The factor of what was taught, as expected before anything is measured, and its standard
deviation: in some spaces, others mislead."""
DEVIATION = 0.1
"""How far, as a logarithm, cycles are expected to be from everything else that is known."""
NOISE = 0.02
"""Differences of cycles, as a logarithm, that features do not explain."""
OPTIMISM = 0.5
"""Standard deviations by which a score is below what is expected."""


class Surrogate:
    """Learns the logarithms of cycles as a sum of four terms.

    1. `reference`;
    2. a constant, of which nothing is known before;
    3. `taught`, times a factor that the measurements decide, the `trust`;
    4. what is left, alike for configurations whose inputs are alike.

    Parameters
    ----------
    reference, taught : (configurations,), logarithms.
    inputs : (configurations, inputs); the scale of an input does not matter.
    """

    def __init__(self, reference: Reals, taught: Reals, inputs: npt.ArrayLike) -> None:
        values = np.asarray(inputs, dtype=np.float64)
        spread = values.std(axis=0)
        varies = spread > 1e-6
        self._inputs = (values - values.mean(axis=0))[:, varies] / spread[varies]
        self._reference = reference
        self._taught = taught
        self._rows: Rows = np.zeros(0, dtype=np.int64)
        self._weights: Reals = np.zeros(0)
        self._inverse: Reals = np.zeros((0, 0))
        self._constant = 0.0
        self.trust = TRUST
        """The factor of what was taught."""

    def fit(self, rows: Rows, cycles: Reals) -> None:
        """Forget what was measured, and learn the cycles of `rows`, one at least."""
        self._rows = rows
        covariance = self._alike(rows) + NOISE**2 * np.eye(len(rows))
        self._inverse = np.asarray(np.linalg.inv(covariance), np.float64)
        found = np.log(cycles) - self._reference[rows]
        basis = np.stack([np.ones(len(rows)), self._taught[rows]], axis=1)
        # Generalized least squares; only the factor has an expectation of its own.
        precision = np.diag([0.0, TRUST_DEVIATION**-2])
        coefficients = np.linalg.solve(
            basis.T @ self._inverse @ basis + precision,
            basis.T @ self._inverse @ found + precision @ np.array([0.0, TRUST]),
        )
        self._constant, self.trust = coefficients.tolist()
        self._weights = self._inverse @ (found - basis @ coefficients)

    def expect(self, rows: Rows) -> Reals:
        """Logarithms of cycles; before anything was measured, up to a constant."""
        return self._expect(rows, self._alike(rows))

    def predict(self, rows: Rows) -> Reals:
        """What is expected, less `OPTIMISM` standard deviations of the fourth term."""
        alike = self._alike(rows)
        explained = np.einsum("ij,ij->i", alike @ self._inverse, alike)
        deviation = np.sqrt(np.maximum(DEVIATION**2 - explained, 0))
        score: Reals = self._expect(rows, alike) - OPTIMISM * deviation
        return score

    def _expect(self, rows: Rows, alike: Reals) -> Reals:
        found: Reals = self._constant + self._reference[rows] + self.trust * self._taught[rows]
        found += alike @ self._weights
        return found

    def _alike(self, rows: Rows) -> Reals:
        """(rows, measured rows): covariances of the fourth term, a squared exponential."""
        one, other = self._inputs[rows], self._inputs[self._rows]
        squares = (one**2).sum(axis=1)[:, None] + (other**2).sum(axis=1) - 2 * one @ other.T
        mean = squares / max(one.shape[1], 1)
        covariance: Reals = DEVIATION**2 * np.exp(-np.maximum(mean, 0) / 2)
        return covariance
