"""`chunk_elements`: how many elements of an operand one asynchronous copy brings to shared memory.

A tile of an operand is copied row by row, along its last dimension. Copies have 4, 8 or 16 bytes,
and begin at multiples of these in both memories.
"""

import math
from collections.abc import Mapping

from daedal.compiler.codegen.llvm.scalars import ELEMENT_BYTES
from daedal.compiler.tir.expr import Axis, Expr, Load, Var
from daedal.compiler.tir.linear import bounds, linear
from daedal.compiler.tir.lower.chunks import CHUNK_BYTES

__all__ = ["chunk_dimension", "chunk_elements"]


def chunk_dimension(operand: Load) -> int:
    """The last dimension of an operand with more than one element."""
    shape = operand.buffer.shape
    return max((n for n, extent in enumerate(shape) if extent > 1), default=len(shape) - 1)


def chunk_elements(operand: Load, tile: Mapping[Var, int]) -> int:
    """The most elements of one copy; 0 where no asynchronous copy can bring the operand.

    Parameters
    ----------
    operand : as the sum of products reads it.
    tile : elements of a step along each axis of the result and of the reduction.
    """
    along = chunk_dimension(operand)
    size = ELEMENT_BYTES[operand.buffer.dtype]
    for bytes_each in CHUNK_BYTES:
        count = bytes_each // size
        if count and _is_copied(operand, along, tile, count):
            return count
    return 0


def _is_copied(operand: Load, along: int, tile: Mapping[Var, int], count: int) -> bool:
    """Whether all rows of all tiles are whole chunks of `count` elements."""
    row = operand.indices[along]
    limits = bounds(row, tile)
    if limits is None or operand.buffer.shape[along] % count:
        return False
    return math.gcd(*_begins(row, tile)) % count == 0 and (limits[1] - limits[0] + 1) % count == 0


def _begins(row: Expr, tile: Mapping[Var, int]) -> list[int]:
    """Numbers whose sums of multiples are the first elements of all rows."""
    form = linear(row)
    found = [form.constant]
    for term, factor in form.terms:
        if not isinstance(term, Axis) or factor < 0:
            return [1]
        if term.extent > tile[term]:
            found.append(factor * tile[term])
    return found
