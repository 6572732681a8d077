"""The layout of a table of LOOKUP: the machine's order of entries, in rows of its scratchpad."""

from dataclasses import dataclass

import numpy as np

from daedal.compiler.graph.layout import Array, Layout
from daedal.isa.scratchpad import TABLE_ENTRIES, TABLE_ROWS

__all__ = ["TableLayout"]


@dataclass(frozen=True)
class TableLayout(Layout):
    """Logical (256,), the results of -128, ..., 127, held as (rows, 1, entries of a row).

    Entry e is the result of the value whose low 8 bits are e, so those of 0, ..., 127 come first.
    """

    def physical_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        assert shape == (TABLE_ENTRIES,), f"a table has {TABLE_ENTRIES} entries, not {shape}"
        return (TABLE_ROWS, 1, TABLE_ENTRIES // TABLE_ROWS)

    def pack(self, array: Array) -> Array:
        return np.roll(array, TABLE_ENTRIES // 2).reshape(self.physical_shape(array.shape))

    def unpack(self, array: Array) -> Array:
        return np.roll(array.reshape(-1), TABLE_ENTRIES // 2)

    def __str__(self) -> str:
        return "table"
