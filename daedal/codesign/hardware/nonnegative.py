"""`NonnegativeFit`: amounts as a sum of known sizes, each with a factor that is not negative.

For parts of circuits: the sizes are bits, lanes and words, the factors are cells for each. Unlike a
smooth regression it holds outside the table, because circuits grow in proportion to their sizes.
Errors count relative to the amounts, those of small amounts less. Source: Lawson and Hanson,
Solving Least Squares Problems, chapter 23; solved by coordinate descent.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["NonnegativeFit", "nonnegative_minimum"]

Array = npt.NDArray[np.float64]

_RIDGE = 1e-4
"""Keeps factors of sizes small where a table says little of them."""
_UNKNOWN = 1e-6
"""Keeps what a table does not say of factors finite."""
_SMALL = 100.0
"""Is added to an amount before errors are relative to it."""
_ROUNDS = 5_000
_CLOSE = 1e-9


@dataclass(frozen=True)
class NonnegativeFit:
    """Predicts an amount from sizes; made by `fit`.

    Attributes
    ----------
    factors : of each size, zero or more.
    spread : (sizes, sizes), the covariance of the factors for errors of relative deviation 1.
    deviation : standard deviation of the relative errors, each row left out in turn.

    An error is relative to the amount plus `_SMALL`.
    """

    factors: Array
    spread: Array
    deviation: float

    @classmethod
    def fit(cls, sizes: Array, amounts: Array) -> "NonnegativeFit":
        """From rows of sizes, (rows, sizes), and an amount for each; none is negative."""
        scaled = sizes / (amounts + _SMALL)[:, None]
        goal = amounts / (amounts + _SMALL)
        largest = scaled.max(axis=0)
        largest[largest == 0] = 1.0
        scaled = scaled / largest
        plain = scaled.T @ scaled
        gram = plain + _RIDGE * np.eye(len(plain))
        factors = nonnegative_minimum(gram, scaled.T @ goal)
        used = factors > 0
        inverse = np.zeros_like(gram)
        inverse[np.ix_(used, used)] = np.linalg.inv(gram[np.ix_(used, used)])
        hat = np.einsum("ij,jk,ik->i", scaled, inverse, scaled)
        errors = (goal - scaled @ factors) / np.maximum(1 - hat, _CLOSE)
        # All sizes may matter to what was not seen yet, those without a factor included.
        spread = np.linalg.inv(plain + _UNKNOWN * np.eye(len(plain))) / np.outer(largest, largest)
        return cls(factors / largest, spread, float(np.sqrt(np.mean(errors**2))))

    def predict(self, sizes: Array) -> Array:
        """The expected amount of each row."""
        found: Array = sizes @ self.factors
        return found

    def doubt(self, sizes: Array) -> Array:
        """How far each row's amount is known from the table, as a standard deviation, if the
        table's errors had deviation 1."""
        found: Array = np.sqrt(np.einsum("ij,jk,ik->i", sizes, self.spread, sizes))
        return found


def nonnegative_minimum(gram: Array, target: Array) -> Array:
    """The x, none negative, for which ``x' gram x / 2 - target x`` is least."""
    found: Array = np.zeros(len(target))
    for _ in range(_ROUNDS):
        before = found.copy()
        for k in range(len(found)):
            found[k] = max(0.0, found[k] + (target[k] - gram[k] @ found) / gram[k, k])
        if np.abs(found - before).max() < _CLOSE:
            break
    return found
