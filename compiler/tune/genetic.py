"""`Genetic`: children of the best configurations, by crossover and mutation."""

import numpy as np
import numpy.typing as npt

from daedal.compiler.ops.space import Space
from daedal.compiler.tune.candidates import Rows
from daedal.compiler.tune.search import NumberedSearch, StopRule

__all__ = ["Genetic"]

_ATTEMPTS = 16
"""Rounds of children before the rest of a batch is drawn at random."""


class Genetic(NumberedSearch):
    """A steady population: the `population` best configurations observed are the parents.

    Each parent is the better one of two drawn at random. A child takes each knob from either
    parent. With the odds `mutation`, a knob then takes any of its values.
    """

    def __init__(
        self,
        space: Space,
        *,
        seed: int = 0,
        stop: StopRule | None = None,
        population: int = 32,
        mutation: float = 0.1,
    ) -> None:
        super().__init__(space, seed=seed, stop=stop)
        self._population = population
        self._mutation = mutation

    def choose(self, count: int) -> Rows:
        """Children that are open, filled up with rows drawn uniformly."""
        parents = self.observed()[: self._population]
        parents = parents[np.isfinite(self.cycles[parents])]
        chosen: list[int] = []
        if len(parents) >= 2:
            for _ in range(_ATTEMPTS):
                children = self.candidates.at(self._children(parents, count))
                fresh = children[(children >= 0) & self.open[children]].tolist()
                chosen = list(dict.fromkeys([*chosen, *fresh]))[:count]
                if len(chosen) == count:
                    break
        others = [row for row in self.draw(count).tolist() if row not in chosen]
        return np.array([*chosen, *others][:count], dtype=np.int64)

    def _children(self, parents: Rows, count: int) -> npt.NDArray[np.int64]:
        """Positions (count, knobs); not all of them fit."""
        # Parents are sorted, so the lower of two numbers is the better one.
        couples = self.rng.integers(len(parents), size=(2, 2, count)).min(axis=0)
        mothers, fathers = self.candidates.positions[parents[couples]]
        shape = mothers.shape
        children = np.where(self.rng.random(shape) < 0.5, mothers, fathers)
        values = self.rng.integers(self.candidates.sizes, size=shape)
        mutated: npt.NDArray[np.int64] = np.where(
            self.rng.random(shape) < self._mutation, values, children
        )
        return mutated
