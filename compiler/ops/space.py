"""`Space`: the schedules of one layer that the compiler can build, and `Config`, one of them.

A schedule leaves decisions open: sizes of tiles, which operand stays on chip, the order of loops.
Each is a *knob* with a finite list of values; a configuration has one value for each knob. A
template gives the knobs, says which configurations fit the target, and estimates what they take,
all for arrays of configurations at once. Enumeration, samples and the default follow
from these.
"""

import abc
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from daedal.common.errors import ScheduleError

__all__ = ["Column", "Config", "Space", "Table"]

Column = npt.NDArray[np.int64]
"""The values of one knob, one for each configuration."""

Table = Mapping[str, Column]
"""Configurations by columns: knob -> values, all of one length."""


@dataclass(frozen=True)
class Config:
    """One value for each knob, in the order of the knobs."""

    values: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, **values: int) -> "Config":
        """From the values by their knobs."""
        return cls(tuple(values.items()))

    def __getitem__(self, knob: str) -> int:
        return dict(self.values)[knob]

    def to_json(self) -> dict[str, int]:
        """Plain data."""
        return dict(self.values)

    @classmethod
    def from_json(cls, data: Any) -> "Config":
        """The configuration that `to_json` wrote.

        Raises
        ------
        ScheduleError
            `data` is anything but a mapping from names to integers.
        """
        if not isinstance(data, dict) or not all(
            isinstance(knob, str) and type(value) is int for knob, value in data.items()
        ):
            raise ScheduleError(
                f"a configuration must be an object with an integer for each knob, not {data!r:.80}"
            )
        return cls(tuple(data.items()))

    def __str__(self) -> str:
        return " ".join(f"{knob}={value}" for knob, value in self.values)


class Space(abc.ABC):
    """All configurations of one template, for one layer or kernel on one target."""

    @property
    @abc.abstractmethod
    def knobs(self) -> Mapping[str, Sequence[int]]:
        """The values of every knob, in an order in which neighbours are similar."""

    @property
    def added(self) -> Mapping[str, int]:
        """Knobs that earlier versions did not have, each with the value that these built."""
        return {}

    def complete(self, config: Config) -> Config:
        """`config`, with the values of knobs that it lacks because it was recorded without them."""
        held = dict(config.values)
        missing = {knob: value for knob, value in self.added.items() if knob not in held}
        if not missing or held.keys() | missing.keys() != self.knobs.keys():
            return config
        held |= missing
        return Config(tuple((knob, held[knob]) for knob in self.knobs))

    def possible(self, table: Table) -> npt.NDArray[np.bool_]:
        """Whether rows with values for the first knobs only can be completed.

        It only saves time: `fits` decides.
        """
        return np.ones(_length(table), dtype=np.bool_)

    @abc.abstractmethod
    def fits(self, table: Table) -> npt.NDArray[np.bool_]:
        """Whether each configuration can be built: it fits the target and the template."""

    @abc.abstractmethod
    def cycles(self, table: Table) -> npt.NDArray[np.float64]:
        """What each configuration that fits takes, as estimated: cycles, or anything that grows as
        what is measured does."""

    @abc.abstractmethod
    def features(self, table: Table) -> dict[str, npt.NDArray[np.float64]]:
        """What a learned cost model sees of each configuration, by name."""

    @property
    def size(self) -> int:
        """Number of combinations, those that do not fit included."""
        return math.prod(len(values) for values in self.knobs.values())

    def table(self, configs: Sequence[Config]) -> Table:
        """The columns of `configs`, which are completed.

        Raises
        ------
        ScheduleError
            One of them has other knobs than this space, or a value that a knob does not have.
        """
        configs = [self.complete(config) for config in configs]
        for config in configs:
            self.check(config)
        return {
            knob: np.array([config[knob] for config in configs], dtype=np.int64)
            for knob in self.knobs
        }

    def configs(self, table: Table) -> list[Config]:
        """The rows of `table`."""
        rows = zip(*(table[knob].tolist() for knob in self.knobs), strict=True)
        return [Config(tuple(zip(self.knobs, row, strict=True))) for row in rows]

    def all(self) -> Table:
        """Every configuration that fits."""
        table = self.combinations()
        return _rows(table, self.fits(table))

    def combinations(self) -> Table:
        """Every combination of values that is `possible`."""
        table: Table = {}
        for knob, values in self.knobs.items():
            column = np.array(values, dtype=np.int64)
            count = _length(table) if table else 1
            table = {name: np.repeat(held, len(column)) for name, held in table.items()}
            table = {**table, knob: np.tile(column, count)}
            table = _rows(table, self.possible(table))
        return table

    def enumerate(self) -> Iterator[Config]:
        """Every configuration that fits, in the order of the knobs."""
        return iter(self.configs(self.all()))

    def sample(self, rng: np.random.Generator, count: int) -> list[Config]:
        """Up to `count` different configurations that fit, drawn uniformly."""
        table = self.all()
        chosen = rng.permutation(_length(table))[:count]
        return self.configs({knob: column[chosen] for knob, column in table.items()})

    @property
    def default(self) -> Config:
        """The configuration with the fewest estimated cycles.

        Raises
        ------
        ScheduleError
            None fits.
        """
        table = self.all()
        cycles = self.cycles(table)
        if not len(cycles):
            raise ScheduleError(f"no schedule of {self} fits the variant's scratchpads")
        best = int(np.argmin(cycles))
        (config,) = self.configs({knob: column[best : best + 1] for knob, column in table.items()})
        return config

    def check(self, config: Config) -> None:
        """Raise ScheduleError unless `config` has a value of each knob, in their order."""
        knobs = self.knobs
        names = [knob for knob, _ in config.values]
        if names != list(knobs):
            raise ScheduleError(
                f"a configuration must have the knobs {', '.join(knobs)}, not {', '.join(names)}"
            )
        for knob, value in config.values:
            if value not in knobs[knob]:
                raise ScheduleError(
                    f"knob {knob!r} must be one of {', '.join(map(str, knobs[knob]))}, not {value}"
                )


def _length(table: Table) -> int:
    return len(next(iter(table.values())))


def _rows(table: Table, chosen: npt.NDArray[np.bool_]) -> Table:
    return {knob: column[chosen] for knob, column in table.items()}
