"""Sequences of primitives, mined from the schedules that won, as moves of a search.

The knobs of a processor's kernel are the arguments of its schedule's primitives: `split` of the
lanes and of each axis of rows, and `reorder` of the loops around them. So a *sequence* gives some
knobs new values, and leaves the others. It is mined from kernels whose best schedules have it and
whose defaults do not, and kept if it also made their defaults faster, on its own.
"""

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from daedal.compiler.ops.space import Config, Space
from daedal.compiler.tune.candidates import Rows
from daedal.compiler.tune.guided import Guided, SearchModel

__all__ = ["Mixed", "Sequenced", "Timed", "mined"]

Sequenced = tuple[tuple[str, int], ...]
"""Knobs and their new values."""

WINS = 0.97
"""A schedule won where it takes at most this share of the default's time."""
NEAR = 1.02
"""Those that take so many times the best schedule's time won, too."""
LONGEST = 4
KEPT = 24
OPERATORS = 2
"""A sequence is known from so many operators at least."""


@dataclass(frozen=True)
class Timed:
    """A kernel of an operator, and the nanoseconds of all its schedules."""

    operator: str
    space: Space
    times: Mapping[Config, int]

    @property
    def default(self) -> int:
        """Nanoseconds without tuning."""
        return self.times[self.space.default]

    @property
    def best(self) -> int:
        """Nanoseconds of the fastest schedule."""
        return min(self.times.values())


def mined(kernels: Sequence[Timed]) -> list[Sequenced]:
    """The sequences that saved most, best first.

    What one saves is the mean logarithm of its effect on the defaults of all kernels that it fits.
    """
    found: set[Sequenced] = set()
    for kernel in kernels:
        before = dict(kernel.space.default.values)
        limit = min(WINS * kernel.default, NEAR * kernel.best)
        for config, taken in kernel.times.items():
            if taken <= limit:
                changed = [item for item in config.values if before[item[0]] != item[1]]
                for length in range(1, min(LONGEST, len(changed)) + 1):
                    found.update(itertools.combinations(changed, length))
    effects: dict[Sequenced, dict[str, list[float]]] = {item: defaultdict(list) for item in found}
    for kernel in kernels:
        for item in found:
            changed_config = applied(item, kernel.space.default)
            if changed_config in kernel.times and changed_config != kernel.space.default:
                effect = np.log(kernel.times[changed_config] / kernel.default)
                effects[item][kernel.operator].append(float(effect))
    saved = {
        item: float(np.mean([np.mean(values) for values in by_operator.values()]))
        for item, by_operator in effects.items()
        if len(by_operator) >= OPERATORS
    }
    better = [item for item, effect in saved.items() if effect < 0]
    return sorted(better, key=lambda item: (saved[item], item))[:KEPT]


def applied(sequence: Sequenced, config: Config) -> Config:
    """The configuration with the values of the sequence; knobs that it does not have are left."""
    changes = dict(sequence)
    return Config(tuple((knob, changes.get(knob, value)) for knob, value in config.values))


class Mixed(Guided):
    """Every second candidate by a mined sequence that changes the best so far, if one is open; the
    others as `Guided` proposes them."""

    def __init__(
        self, space: Space, model: SearchModel, sequences: Sequence[Sequenced], *, seed: int = 0
    ) -> None:
        super().__init__(space, model, seed=seed)
        self._sequences = sequences
        self._turn = 0
        self._row_of = {config: row for row, config in enumerate(self._all())}

    def choose(self, count: int) -> Rows:
        """See the class; a batch is of one."""
        assert count == 1
        self._turn += 1
        best = self.observed()[:1]
        if self._turn % 2 and len(best):
            (config,) = self.candidates.configs(best)
            for sequence in self._sequences:
                row = self._row_of.get(applied(sequence, config))
                if row is not None and self.open[row]:
                    return np.array([row], np.int64)
        return super().choose(count)

    def _all(self) -> list[Config]:
        return self.candidates.configs(np.arange(len(self.candidates), dtype=np.int64))
