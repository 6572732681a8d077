"""`Candidates`: the configurations of a space that fit, by number, with arrays for searches.

A search handles thousands of configurations for each one that it proposes. Here a configuration is
its row in `Space.all()`, and steps from row to row are array operations.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from daedal.common.errors import ScheduleError
from daedal.compiler.ops.space import Config, Space
from daedal.compiler.tune.cost_model import Columns, feature_columns

__all__ = ["Candidates", "Rows", "diverse", "fastest_and_spread"]

Rows = npt.NDArray[np.int64]
"""Numbers of configurations."""


class Candidates:
    """Every configuration of `space` that fits, numbered in the order of the knobs."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self._table = space.all()
        self._sizes = [len(values) for values in space.knobs.values()]
        self._strides = np.array(
            [int(np.prod(self._sizes[at + 1 :], dtype=np.int64)) for at in range(len(self._sizes))]
        )
        columns = []
        for knob, values in space.knobs.items():
            order = np.argsort(values)
            columns.append(order[np.searchsorted(np.array(values)[order], self._table[knob])])
        self.positions: npt.NDArray[np.int64] = np.stack(columns, axis=1)
        """(configurations, knobs): the index of each value among the knob's values."""
        self._row_of = np.full(space.size, -1, dtype=np.int64)
        self._row_of[self.positions @ self._strides] = np.arange(len(self.positions))
        self.estimates = space.cycles(self._table)
        """The analytic estimate of each configuration, in cycles."""
        self._columns = feature_columns(space, self._table)

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def sizes(self) -> Sequence[int]:
        """Number of values of each knob."""
        return self._sizes

    def configs(self, rows: Rows) -> list[Config]:
        """The configurations of `rows`."""
        return self.space.configs({knob: column[rows] for knob, column in self._table.items()})

    def features(self, rows: Rows) -> Columns:
        """The features of `rows`."""
        return {name: column[rows] for name, column in self._columns.items()}

    def rows(self, configs: Sequence[Config]) -> Rows:
        """The rows of configurations.

        Raises
        ------
        ScheduleError
            One of them is not of this space, or does not fit.
        """
        table = self.space.table(configs)
        indices = [
            [list(values).index(value) for value in table[knob].tolist()]
            for knob, values in self.space.knobs.items()
        ]
        rows = self.at(np.array(indices, dtype=np.int64).T)
        for config, row in zip(configs, rows.tolist(), strict=True):
            if row < 0:
                raise ScheduleError(f"a configuration must fit the variant; {config} does not")
        return rows

    def at(self, positions: npt.NDArray[np.int64]) -> Rows:
        """The rows at `positions` (configurations, knobs); -1 where none fits or none exists."""
        inside = ((positions >= 0) & (positions < np.array(self._sizes))).all(axis=1)
        index = np.where(inside, positions @ self._strides, 0)
        return np.where(inside, self._row_of[index], -1)


def diverse(
    candidates: Candidates,
    rows: Rows,
    scores: npt.NDArray[np.float64],
    count: int,
    diversity: float,
) -> Rows:
    """Up to `count` of `rows`, greedily: low scores, and values of knobs not yet covered.

    `diversity` is what such a value is worth, in standard deviations of the scores, divided by the
    number of knobs.
    """
    positions = candidates.positions[rows]
    num_knobs = positions.shape[1]
    covered = np.zeros((num_knobs, max(candidates.sizes)), dtype=np.bool_)
    gain = diversity * (float(scores.std()) if len(scores) else 0.0) / num_knobs
    left = scores.copy()
    batch: list[int] = []
    for _ in range(min(count, len(rows))):
        new_values = np.count_nonzero(~covered[np.arange(num_knobs), positions], axis=1)
        pick = int(np.argmin(left - gain * new_values))
        covered[np.arange(num_knobs), positions[pick]] = True
        left[pick] = np.inf
        batch.append(int(rows[pick]))
    return np.array(batch, dtype=np.int64)


def fastest_and_spread(rows: Rows, most: int) -> Rows:
    """At most `most` of `rows`, which are sorted by cycles: the first ones for half of these, and a
    spread of the others."""
    if len(rows) <= most:
        return rows
    spread = np.linspace(most // 2, len(rows) - 1, most - most // 2).astype(np.int64)
    return np.concatenate([rows[: most // 2], rows[spread]])
