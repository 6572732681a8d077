"""`ConvBound`: what a convolution's tiles make each unit do at least.

Input: shape, variant, and tiles as columns, one for each field of `ConvTile`. Output: their `Work`.
Rows are counted tile by tile where tiles reach into the padding, so that nothing is rounded up.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import prod

import numpy as np
import numpy.typing as npt

from daedal.compiler.bound import Work
from daedal.compiler.ops.accelerator.conv.shape import ConvShape
from daedal.compiler.ops.conv2d import Gather
from daedal.compiler.space import Column, Table
from daedal.isa.scratchpad import Memory, scratchpads
from daedal.isa.variant import Variant

__all__ = ["ConvBound"]

_Floats = npt.NDArray[np.float64]


class ConvBound:
    """The least work of the tiles of one convolution; columns as those of `ConvCost`."""

    def __init__(self, shape: ConvShape, variant: Variant) -> None:
        pads = scratchpads(variant)
        self._shape = shape
        self._inp, self._wgt, self._out, self._par = (
            pads[memory].row_bytes for memory in (Memory.INP, Memory.WGT, Memory.OUT, Memory.PAR)
        )
        self._vector_cycles = shape.tail.vector_cycles(variant)
        gathers = shape.gather is not Gather.NOTHING
        self._rows = _Axis.of(shape, 0, gathers=gathers)
        self._columns = _Axis.of(shape, 1, gathers=False)

    def work(self, tiles: Table) -> Work:
        """The least work of each schedule."""
        shape = self._shape
        height, width, out_blocks = tiles["height"], tiles["width"], tiles["out_blocks"]
        maps = _ceil(shape.height, height) * _ceil(shape.width, width) * shape.batches
        keeps = tiles["group"] > 0
        turns = _ceil(shape.out_blocks, out_blocks)
        groups = np.where(keeps, _ceil(shape.out_blocks, np.maximum(tiles["group"], 1)), 1)
        pairs = shape.out_blocks * shape.in_blocks * shape.in_parts * shape.out_parts * self._wgt
        kept = prod(shape.kernel) * (shape.batches if shape.groups > 1 else 1)
        used = _by_pair(self._rows.used, height, tiles["tap_rows"])
        used = used * _by_pair(self._columns.used, width, tiles["tap_columns"]) * shape.batches
        vectors = shape.out_blocks * shape.out_parts * shape.height * shape.width * shape.batches
        params = shape.out_blocks * shape.out_parts * shape.classes * self._par
        inputs = np.where(tiles["keep_inputs"] > 0, groups, turns) * (
            shape.batches * shape.in_blocks * shape.in_parts * self._inp
        )
        rows = _by_pair(self._rows.loaded, height, tiles["tap_rows"])
        columns = _by_pair(self._columns.loaded, width, tiles["tap_columns"])
        read = (
            inputs * rows * columns
            + pairs * np.where(keeps, kept, used)
            + params
            + vectors * shape.tail.loads * self._inp
        )
        last = _rest(shape.height, height) * _rest(shape.width, width)
        last = last * _rest(shape.out_blocks, out_blocks) * shape.out_parts
        steps = _ceil(shape.in_blocks, tiles["in_blocks"])
        # A step has a product, a tile a requantization and a store.
        instructions = maps * turns * (steps + 2)
        # A first step of a part of the window may be left out.
        whole = (tiles["tap_rows"] == shape.kernel[0]) & (tiles["tap_columns"] == shape.kernel[1])
        first = tiles["in_blocks"] * (
            _by_pair(self._rows.first, height, tiles["tap_rows"])
            * _by_pair(self._columns.first, width, tiles["tap_columns"])
            * (shape.in_parts * self._inp)
            + out_blocks * (shape.weight_rows() * self._wgt)
        )
        needed = self._rows.pairs(shape.height) * self._columns.pairs(shape.width)
        per_tap = shape.in_blocks * shape.in_parts * shape.out_parts
        first_pairs = _by_pair(self._first_pairs, height, width)
        return Work(
            *_floats(
                np.full(len(height), shape.batches * shape.out_blocks * per_tap * needed),
                np.full(len(height), vectors * self._vector_cycles),
                read,
                np.full(len(height), vectors * self._out),
                instructions,
                np.where(whole, first, 0),
                out_blocks * per_tap * first_pairs,
                last * self._vector_cycles,
                last * self._out,
            )
        )

    def _first_pairs(self, height: int, width: int) -> int:
        """Pairs of an output of the first tile and a tap of its window that are computed."""
        return self._rows.pairs(height) * self._columns.pairs(width)


@dataclass(frozen=True)
class _Axis:
    """One dimension of the map: its outputs, and where their windows lie.

    `skips` is whether products with padding are left out, `gathers` whether rows between the taps
    are not loaded.
    """

    size: int
    outputs: int
    kernel: int
    stride: int
    dilation: int
    pad: int
    skips: bool
    gathers: bool

    @classmethod
    def of(cls, shape: ConvShape, axis: int, *, gathers: bool) -> "_Axis":
        return cls(
            shape.size[axis],
            (shape.height, shape.width)[axis],
            shape.kernel[axis],
            shape.strides[axis],
            shape.dilations[axis],
            shape.pads[axis],
            shape.skips_padding,
            gathers,
        )

    def loaded(self, tile: int, taps: int) -> int:
        """Elements that all tiles of `tile` outputs load, in steps of `taps` taps."""
        return sum(
            self._of_tile(begin, min(begin + tile, self.outputs), tap, min(tap + taps, self.kernel))
            for begin in range(0, self.outputs, tile)
            for tap in range(0, self.kernel, taps)
        )

    def used(self, tile: int, taps: int) -> int:
        """Taps whose weights all tiles of `tile` outputs load, in steps of `taps` taps.

        A step with nothing but padding is left out.
        """
        return sum(
            min(taps, self.kernel - tap)
            for begin in range(0, self.outputs, tile)
            for tap in range(0, self.kernel, taps)
            if not self.skips
            or self._of_tile(
                begin, min(begin + tile, self.outputs), tap, min(tap + taps, self.kernel)
            )
        )

    def first(self, tile: int, taps: int) -> int:
        """Elements that the first step of the first tile loads."""
        return self._of_tile(0, min(tile, self.outputs), 0, min(taps, self.kernel))

    def pairs(self, tile: int) -> int:
        """Pairs of an output of the first tile and a tap that are multiplied."""
        outputs = min(tile, self.outputs)
        if not self.skips:
            return outputs * self.kernel
        places = self._places(0, outputs, 0, self.kernel)
        return int(np.count_nonzero((places >= 0) & (places < self.size)))

    def _of_tile(self, begin: int, end: int, tap: int, tap_end: int) -> int:
        places = self._places(begin, end, tap, tap_end)
        inside = places[(places >= 0) & (places < self.size)]
        if self.gathers:
            return inside.size
        if tap_end - tap < self.kernel:
            # Part of a window may be loaded with the stride between windows.
            return np.unique(inside).size
        first, last = max(int(places.min()), 0), min(int(places.max()), self.size - 1)
        return max(last - first + 1, 0)

    def _places(self, begin: int, end: int, tap: int, tap_end: int) -> npt.NDArray[np.int64]:
        outputs, taps = np.arange(begin, end) * self.stride, np.arange(tap, tap_end) * self.dilation
        return np.add.outer(outputs, taps) - self.pad


def _by_pair(function: Callable[[int, int], int], a: Column, b: Column) -> Column:
    """`function` of every row, evaluated once for each pair that occurs."""
    known = cache(function)
    return np.array([known(*pair) for pair in zip(a.tolist(), b.tolist(), strict=True)], np.int64)


def _floats(*columns: npt.NDArray[np.generic]) -> list[_Floats]:
    return [np.asarray(column, np.float64) for column in columns]


def _rest(extent: int, size: Column) -> Column:
    """Size of the last tile."""
    rest: Column = extent - (_ceil(extent, size) - 1) * size
    return rest


def _ceil(extent: int | Column, size: Column) -> Column:
    return -(-extent // size)
