"""Entries of a table of the accelerator, by 8-bit values."""

from daedal.compiler.te.functions import bit_and
from daedal.compiler.te.tensor import Tensor
from daedal.compiler.tir.dtype import INDEX_DTYPE
from daedal.compiler.tir.expr import Expr, IntImm
from daedal.isa.scratchpad import TABLE_ENTRIES

__all__ = ["entry_of"]


def entry_of(table: Tensor, value: Expr) -> Expr:
    """The entry of `table` (rows, 1, entries of a row) for `value`, int8.

    Its number is the value's low 8 bits, unsigned.
    """
    number, size = bit_and(value.astype(INDEX_DTYPE), TABLE_ENTRIES - 1), table.shape[-1]
    return table[number // size, IntImm(0), bit_and(number, size - 1)]
