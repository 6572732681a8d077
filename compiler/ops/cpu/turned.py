"""Tiles that are turned in registers: read along one axis and stored along another."""

from collections.abc import Sequence

from daedal.compiler.codegen.llvm.scalars import ELEMENT_BYTES
from daedal.compiler.ops.cpu.reuse import (
    LINE_BYTES,
    MIN_LANES,
    NARROW,
    Registers,
    Tiles,
    divisors,
)
from daedal.compiler.tir.expr import Axis, Expr
from daedal.compiler.tir.linear import accessed_element
from daedal.compiler.tir.visit import loads

__all__ = ["tiles_together", "turned_tile"]

MOST_TURNED = 16
"""Elements along each side of a tile."""
LINES_TOGETHER = 4
"""Of the cache, that tiles which follow each other read along one axis."""
HALF_TURNED = 0.75
"""What an element of a tile of half the side takes, at most: it uses half a vector."""


def turned_tile(
    value: Expr, axes: Sequence[Axis], dtype: str, registers: Registers = NARROW
) -> Tiles | None:
    """The tile of elements that lie side by side along another axis than the last one where they
    are read; None where there are none."""
    most = min(registers.vector_bytes // ELEMENT_BYTES[dtype], MOST_TURNED)
    last = len(axes) - 1
    for load in loads(value):
        form = accessed_element(load)
        if load.pad_value is not None or abs(form.coefficient(axes[last])) <= 1:
            continue
        for number, axis in enumerate(axes[:last]):
            if form.coefficient(axis) == 1:
                size = _turned_size(axis.extent, axes[last].extent, most)
                if size:
                    # Tiles of the two axes follow each other: they share lines of the cache.
                    others = (other for other in range(last) if other != number)
                    return Tiles(last, size, ((number, size),), outer=(*others, number, last))
    return None


def _turned_size(rows: int, columns: int, most: int) -> int:
    """The side of the tiles of so many rows and columns; 0 where they are too few."""

    def computed(size: int) -> int:
        return -(-rows // size) * -(-columns // size) * size**2

    while most > min(rows, columns):
        most //= 2
    half = most // 2
    if half >= MIN_LANES and computed(half) < HALF_TURNED * computed(most):
        most = half
    return most if most >= MIN_LANES else 0


def tiles_together(tiles: Tiles, shape: Sequence[int], dtype: str) -> dict[int, int]:
    """How many tiles that are turned follow each other along the axes of the rows and the lanes.

    So many that what they read is `LINES_TOGETHER` lines of the cache along one axis and what they
    store is one line along the other: a tensor that the cache does not hold is then read and stored
    in few streams, of whole lines.
    """
    ((rows, size),) = tiles.rows
    line = max(1, LINE_BYTES // (size * ELEMENT_BYTES[dtype]))
    wanted = {rows: LINES_TOGETHER * line, tiles.vector: line}
    return {axis: divisors(-(-shape[axis] // size), most)[-1] for axis, most in wanted.items()}
