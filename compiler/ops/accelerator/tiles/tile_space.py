"""`TileSpace`: the schedules of an operator that differ in the sizes of its tiles.

A tile takes at most half of each scratchpad, so that the next one is loaded meanwhile. If no tile
is that small, a tile may take a whole scratchpad.
"""

import abc
from functools import cached_property

import numpy as np
import numpy.typing as npt

from daedal.common.errors import ScheduleError
from daedal.compiler.graph.window_extents import Extent
from daedal.compiler.ops.accelerator.layer_space import LayerSpace
from daedal.compiler.ops.space import Column, Config, Table
from daedal.isa.memory_model import MemoryModel
from daedal.isa.variant import Variant

__all__ = ["Floats", "Mask", "TileSpace", "ceil_div", "chosen", "last_size", "whole_rows_first"]

Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


class TileSpace(LayerSpace):
    """A space whose tiles fit the scratchpads of `variant` twice, or once if none does."""

    def __init__(self, variant: Variant) -> None:
        self.variant = variant

    @abc.abstractmethod
    def holds(self, table: Table, share: int) -> Mask:
        """Whether each tile takes at most 1/`share` of the scratchpads."""

    @abc.abstractmethod
    def misfit(self) -> str:
        """The error if not even the smallest tile fits."""

    def usual(self, table: Table) -> Table:
        """The rows that `default_with` chooses from, the first one where estimates are equal; the
        others are for measurements."""
        return table

    @property
    def share(self) -> int:
        """How many tiles fit at once, 2 or 1."""
        return self._fitting[0]

    @cached_property
    def _fitting(self) -> tuple[int, Table]:
        table = self.combinations()
        for share in (2, 1):
            held = self.holds(table, share)
            if held.any():
                break
        return share, chosen(table, held)

    def all(self) -> Table:
        return self._fitting[1]

    def fits(self, table: Table) -> Mask:
        fitting: Mask = self.possible(table) & self.holds(table, self.share)
        return fitting

    def default_with(self, memory: MemoryModel) -> Config:
        """Of the usual tiles, the first one with the fewest estimated cycles.

        Raises
        ------
        ScheduleError
            Not even the smallest tile fits.
        """
        table = self.usual(self.all())
        cycles = self.cycles_with(table, memory)
        if not len(cycles):
            raise ScheduleError(self.misfit())
        return self.row(table, int(np.argmin(cycles)))


def chosen(table: Table, rows: Mask | Column) -> Table:
    """Some rows, by a mask or by their numbers in a new order."""
    return {knob: column[rows] for knob, column in table.items()}


def whole_rows_first(table: Table, width: int, blocks: str = "blocks") -> Table:
    """Tiles of the most `blocks` of channels first, and of these the ones of the whole `width`."""
    order = np.lexsort((table["width"] < width, -table[blocks]))
    return chosen(table, order)


def ceil_div(extent: Extent, size: Extent) -> Column:
    """Number of tiles of `size` that cover `extent`."""
    return np.asarray(-(-extent // size))


def last_size(extent: int, size: Column) -> Column:
    """Size of the last of the tiles that cover `extent`."""
    last: Column = extent - (ceil_div(extent, size) - 1) * size
    return last
