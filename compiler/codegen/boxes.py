"""Splits a copy between memory and a scratchpad into pieces that LOAD and STORE can move.

Input: for each dimension of the box, its extent, its strides on both sides, and its pads, the part
outside the source. Output: three-dimensional pieces with pads around each plane.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

__all__ = ["CopyDim", "Piece", "split_box"]


@dataclass(frozen=True)
class CopyDim:
    """One dimension: `extent` elements in memory, at a stride in beats of the bus.

    On chip, `pad_low` elements come before them and `pad_high` after them. `chip_stride` counts
    scratchpad rows.
    """

    extent: int
    memory_stride: int
    chip_stride: int
    pad_low: int = 0
    pad_high: int = 0

    @property
    def total(self) -> int:
        """Extent on chip."""
        return self.pad_low + self.extent + self.pad_high

    @property
    def padded(self) -> bool:
        """Whether part of it lies outside the source."""
        return self.total != self.extent


@dataclass(frozen=True)
class Piece:
    """Planes x rows x columns of scratchpad rows, with pads around each plane.

    `memory_beat` and the strides count beats.
    """

    chip_row: int
    memory_beat: int
    blocks: int
    rows: int
    cols: int
    row_stride: int
    block_stride: int
    pads: tuple[int, int, int, int]


_NOTHING = CopyDim(1, 0, 0)


def split_box(
    dims: list[CopyDim],
    chip_row: int,
    memory_beat: int,
    row_beats: int,
    max_stride: int,
    max_pad: int,
) -> Iterator[Piece]:
    """Pieces of a box that begins at `chip_row`; its first element in memory is at `memory_beat`.

    A scratchpad row is `row_beats` in memory.

    Dimensions come outermost first. Pads wider than `max_pad` and strides longer than `max_stride`
    take more pieces.
    """
    rest = _merged(dims)
    cols = _take(rest, 1, max_pad, lambda dim: dim.memory_stride == row_beats or dim.extent <= 1)
    rows = _take(rest, cols.total, max_pad, lambda dim: dim.memory_stride <= max_stride)
    blocks = _take(
        rest,
        cols.total * rows.total,
        max_pad,
        lambda dim: dim.memory_stride <= max_stride and not dim.padded,
    )
    for point in itertools.product(*(range(dim.total) for dim in rest)):
        chip, memory, outside = chip_row, memory_beat, False
        for index, dim in zip(point, rest, strict=True):
            chip += index * dim.chip_stride
            memory += (index - dim.pad_low) * dim.memory_stride
            outside |= not 0 <= index - dim.pad_low < dim.extent
        pads = (rows.pad_low, rows.pad_high, cols.pad_low, cols.pad_high)
        if outside or not rows.extent or not cols.extent:
            yield from _fill(chip, blocks.total * rows.total * cols.total, max_pad)
        else:
            yield Piece(
                chip,
                memory,
                blocks.extent,
                rows.extent,
                cols.extent,
                rows.memory_stride,
                blocks.memory_stride,
                pads,
            )


def _fill(chip_row: int, count: int, max_pad: int) -> Iterator[Piece]:
    """Pieces that are only padding: one column, nothing from memory, pads above."""
    while count > 0:
        step = min(count, max_pad)
        yield Piece(chip_row, 0, 1, 0, 1, 0, 0, (step, 0, 0, 0))
        chip_row, count = chip_row + step, count - step


def _take(
    rest: list[CopyDim], chip_stride: int, max_pad: int, fits: Callable[[CopyDim], bool]
) -> CopyDim:
    """Remove and return the innermost dimension if it is suitable, else return a trivial one."""
    if rest:
        dim = rest[-1]
        dense = dim.chip_stride == chip_stride or dim.total == 1
        if dense and max(dim.pad_low, dim.pad_high) <= max_pad and fits(dim):
            return rest.pop()
    return _NOTHING


def _merged(dims: list[CopyDim]) -> list[CopyDim]:
    """Drop dimensions of one element, and merge adjacent ones that are dense on both sides."""
    result: list[CopyDim] = []
    for dim in dims:
        if dim.total == 1 and not dim.padded:
            continue
        outer = result[-1] if result else None
        if (
            outer is not None
            and not outer.padded
            and not dim.padded
            and outer.memory_stride == dim.extent * dim.memory_stride
            and outer.chip_stride == dim.extent * dim.chip_stride
        ):
            result[-1] = CopyDim(outer.extent * dim.extent, dim.memory_stride, dim.chip_stride)
        else:
            result.append(dim)
    return result
