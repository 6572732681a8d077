"""`PartsSpace`: the schedules of a layer of several convolutions that run in sequence.

Knob ``part<i>`` is the place of a schedule in a list of those of convolution i: its default first,
then by estimated cycles. The lists are so long that there are at most `MOST` combinations.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from daedal.compiler.cost.memory import DDR, MemoryCost
from daedal.compiler.ops.accelerator.conv.space import ConvSpace
from daedal.compiler.ops.accelerator.layer_space import LayerSpace
from daedal.compiler.ops.space import Column, Config, Table
from daedal.isa.memory_model import MemoryModel
from daedal.isa.variant import Variant

__all__ = ["PartsSpace"]

MOST = 4096

_Floats = npt.NDArray[np.float64]
_Number = TypeVar("_Number", np.int64, np.float64)


class PartsSpace(LayerSpace):
    """The combinations of the schedules of `parts`."""

    def __init__(self, parts: Sequence[ConvSpace]) -> None:
        self._parts = parts
        length = max(count for count in range(1, MOST + 1) if count ** len(parts) <= MOST)
        self._choices = [_first(part, length) for part in parts]

    def on(self, variant: Variant) -> "PartsSpace":
        """Raises ScheduleError where nothing fits."""
        return PartsSpace([part.on(variant) for part in self._parts])

    @cached_property
    def knobs(self) -> Mapping[str, Sequence[int]]:
        return {f"part{n}": list(range(len(item))) for n, item in enumerate(self._choices)}

    def fits(self, table: Table) -> npt.NDArray[np.bool_]:
        return np.ones(len(table["part0"]), dtype=np.bool_)

    def cycles(self, table: Table) -> _Floats:
        return self.cycles_alone(table, DDR)

    def cycles_alone(self, table: Table, memory: MemoryModel) -> _Floats:
        cycles = self._each(table, [part.cycles_alone(rows, memory) for part, rows in self._tables])
        return np.asarray(cycles.sum(axis=0), np.float64)

    def cycles_with(self, table: Table, memory: MemoryModel) -> _Floats:
        cost, features = MemoryCost.of(memory), self.features(table)
        return cost.cycles(features) if cost.slows_words else features["estimate"]

    def latency_cycles(self, memory: MemoryModel) -> float:
        del memory
        return sum(part.latency_cycles(DDR) for part in self._parts)

    def bound(self, table: Table, memory: MemoryModel) -> _Floats:
        """The largest of the parts: one may begin before the other has ended."""
        bounds = [part.bound(rows, memory) for part, rows in self._tables]
        return np.asarray(np.max(self._each(table, bounds), axis=0), np.float64)

    def instructions(self, table: Table) -> tuple[Column, Column]:
        found = [part.instructions(rows) for part, rows in self._tables]
        least, most = (self._each(table, [item[end][0] for item in found]) for end in (0, 1))
        return least, most

    def features(self, table: Table) -> dict[str, _Floats]:
        """The sums over the parts."""
        found = [part.features(rows) for part, rows in self._tables]
        return {
            name: self._each(table, [item[name] for item in found]).sum(axis=0) for name in found[0]
        }

    def default_with(self, memory: MemoryModel) -> Config:
        """Those of the parts for preset `ddr`, whatever the memory: its knobs are places in the
        order of their estimates."""
        del memory
        return Config(tuple((knob, 0) for knob in self.knobs))

    def split(self, config: Config) -> list[Config]:
        """The configuration of each part. Raises ScheduleError if `config` is of another space."""
        self.check(config)
        places = [place for _, place in config.values]
        return [items[place] for items, place in zip(self._choices, places, strict=True)]

    @cached_property
    def _tables(self) -> list[tuple[ConvSpace, Table]]:
        """Each part, with its schedules in their places."""
        pairs = zip(self._parts, self._choices, strict=True)
        return [(part, part.table(items)) for part, items in pairs]

    def _each(self, table: Table, values: Sequence[npt.NDArray[_Number]]) -> npt.NDArray[_Number]:
        """(parts, rows): the value of the schedule that each row gives a part."""
        rows = [column[table[knob]] for knob, column in zip(self.knobs, values, strict=True)]
        return np.array(rows)


def _first(part: ConvSpace, count: int) -> list[Config]:
    default = part.default
    return [default, *(config for config in part.ranked() if config != default)][:count]
