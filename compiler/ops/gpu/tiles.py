"""Tiles of a reduction of products: what a block of threads computes, and what each thread of it.

A product of two operands is computed for rows, the axes that only the first one has, and columns,
those that only the second one has. A block keeps the elements that it needs of both in shared
memory, some of the reduction at a time, and each thread a tile of sums in registers.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from daedal.compiler.codegen.llvm.scalars import ELEMENT_BYTES
from daedal.compiler.tir.expr import Axis, Binary, Cast, Expr, Load, Var
from daedal.compiler.tir.linear import bounds
from daedal.compiler.tir.visit import free_vars

__all__ = [
    "BLOCK",
    "CORE_THREADS",
    "DEPTHS",
    "ELEMENTS",
    "FEW_THREADS",
    "MOST_SUMS",
    "RESIDENT_THREADS",
    "SHARED_BYTES",
    "GpuTiles",
    "choose_tiles",
    "factors",
    "resident_blocks",
    "shared_bytes",
    "sized_tiles",
    "window",
]

SHARED_BYTES = 48 << 10
"""Of a block, which every GPU has. Source: CUDA C++ Programming Guide, compute capabilities."""
BLOCK = 64
"""Rows and columns of a block."""
ELEMENTS = 4
"""Rows and columns of a thread."""
DEPTHS = (16, 8, 4, 2, 1)
"""Elements of the longest axis of a reduction that are in shared memory at a time."""
MOST_TAPS = 25
"""Elements of the other axes together that are there at a time."""
FEWEST = 4
"""Rows and columns that are worth a tile."""


RESIDENT_THREADS, CORE_THREADS, FEW_THREADS = 512, 384, 256
"""Of a multiprocessor: of its 65536 registers, each has 128, or 168 on tensor cores, or as many as
there are, 255."""
MOST_SUMS = 32
"""Of a thread that has not as many registers as there are."""
MOST_RESIDENT = 6
"""Blocks of a multiprocessor, whose shared memory has room for no more."""


@dataclass(frozen=True)
class GpuTiles:
    """Extents of tiles.

    Attributes
    ----------
    threads : along each axis of the result.
    elements : of a thread along each axis of the result.
    depth : along each axis of the reduction.
    """

    threads: tuple[int, ...]
    elements: tuple[int, ...]
    depth: tuple[int, ...]

    @property
    def block(self) -> tuple[int, ...]:
        """Elements of a block of threads along each axis of the result."""
        return tuple(a * b for a, b in zip(self.threads, self.elements, strict=True))


def resident_blocks(threads: int, together: int) -> int:
    """Blocks of `threads` for which the registers of a multiprocessor must suffice, if `together`
    threads have them. Left to itself, ptxas prefers more blocks, and spills registers for these."""
    return max(1, min(MOST_RESIDENT, together // threads))


def factors(value: Expr) -> tuple[Load, Load] | None:
    """The two elements whose product `value` is, each perhaps converted."""
    if not isinstance(value, Binary) or value.op != "*":
        return None
    found = []
    for part in (value.a, value.b):
        while isinstance(part, Cast):
            part = part.value
        if not isinstance(part, Load):
            return None
        found.append(part)
    return found[0], found[1]


def choose_tiles(value: Expr, axes: Sequence[Axis], reduced: Sequence[Axis]) -> GpuTiles | None:
    """The tiles of a sum of `value` over `reduced`, for results along `axes`; None where it is no
    product with enough rows and columns."""
    for depth in DEPTHS:
        given = (BLOCK, BLOCK), (ELEMENTS, ELEMENTS), depth
        tiles = sized_tiles(value, axes, reduced, *given)
        if tiles is not None:
            return tiles
    return None


def sized_tiles(
    value: Expr,
    axes: Sequence[Axis],
    reduced: Sequence[Axis],
    most: tuple[int, int],
    own: tuple[int, int],
    depth: int,
) -> GpuTiles | None:
    """The tiles with up to `most` rows and columns of a block, up to `own` ones of a thread, and
    `depth` elements of the longest axis of the reduction; None where there are none, or shared
    memory cannot hold their operands."""
    operands = factors(value)
    if operands is None or operands[0].buffer is operands[1].buffer:
        return None
    used = [{var for index in operand.indices for var in free_vars(index)} for operand in operands]
    rows = [n for n, axis in enumerate(axes) if axis in used[0] and axis not in used[1]]
    columns = [n for n, axis in enumerate(axes) if axis in used[1] and axis not in used[0]]
    if any(math.prod(axes[n].extent for n in group) < FEWEST for group in (rows, columns)):
        return None
    threads, elements = [1] * len(axes), [1] * len(axes)
    for group, block, left in zip((rows, columns), most, own, strict=True):
        for position in reversed(group):
            size = min(1 << (axes[position].extent - 1).bit_length(), block)
            elements[position] = min(size, left)
            threads[position] = size // elements[position]
            block, left = block // size, left // elements[position]
    tiles = GpuTiles(tuple(threads), tuple(elements), _depths(reduced, depth))
    return tiles if shared_bytes(operands, axes, reduced, tiles) <= SHARED_BYTES else None


def _depths(reduced: Sequence[Axis], depth: int) -> tuple[int, ...]:
    """`depth` along the longest axis, and all of the others where that is little."""
    longest = max(reduced, key=lambda axis: axis.extent)
    others = math.prod(axis.extent for axis in reduced if axis is not longest)
    return tuple(
        min(depth, axis.extent) if axis is longest else (axis.extent if others <= MOST_TAPS else 1)
        for axis in reduced
    )


def shared_bytes(
    operands: Sequence[Load], axes: Sequence[Axis], reduced: Sequence[Axis], tiles: GpuTiles
) -> int:
    """Of the parts of both operands that a block needs at a time."""
    sizes = (*tiles.block, *tiles.depth)
    extents: dict[Var, int] = dict(zip((*axes, *reduced), sizes, strict=True))
    total = 0
    for operand in operands:
        total += ELEMENT_BYTES[operand.buffer.dtype] * math.prod(window(operand, extents))
    return total


def window(operand: Load, extents: Mapping[Var, int]) -> tuple[int, ...]:
    """Elements of an operand along each dimension, for a tile of `extents` along the axes."""
    found = []
    for index, extent in zip(operand.indices, operand.buffer.shape, strict=True):
        limits = bounds(index, extents)
        found.append(extent if limits is None else limits[1] - limits[0] + 1)
    return tuple(found)
