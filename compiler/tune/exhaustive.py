"""`Exhaustive`: every configuration, in the order of the space's estimate."""

import numpy as np

from daedal.compiler.tune.candidates import Rows
from daedal.compiler.tune.search import NumberedSearch

__all__ = ["Exhaustive"]


class Exhaustive(NumberedSearch):
    """Proposes the configurations with the fewest estimated cycles first. Uses no randomness."""

    def choose(self, count: int) -> Rows:
        """The open rows with the lowest estimates."""
        rows = np.flatnonzero(self.open)
        return rows[np.argsort(self.candidates.estimates[rows], kind="stable")[:count]]
