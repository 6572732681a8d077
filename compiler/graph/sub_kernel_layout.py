"""Weights of a transposed convolution: those of its dense convolutions, concatenated."""

import itertools
import math
from dataclasses import dataclass

import numpy as np

from daedal.compiler.graph.layout import Array, Layout, WeightLayout
from daedal.compiler.graph.ops.sub_kernels import SubKernel

__all__ = ["SubKernelLayout"]


@dataclass(frozen=True)
class SubKernelLayout(Layout):
    """Logical `shape` (O, I, KH, KW) held as (rows, block_out, block_in).

    The parts follow each other, each in the order of `WeightLayout`. A part without taps has one
    tap of zeros.
    """

    block_out: int
    block_in: int
    shape: tuple[int, int, int, int]
    parts: tuple[SubKernel, ...]

    @property
    def part_shapes(self) -> tuple[tuple[int, ...], ...]:
        """(OB, IB, KH, KW, block_out, block_in) of every part."""
        return tuple(
            self._dense.physical_shape(
                (*self.shape[:2], *(max(1, len(axis.taps)) for axis in part))
            )
            for part in self.parts
        )

    @property
    def first_rows(self) -> tuple[int, ...]:
        """The first row of every part, then the end."""
        counts = [math.prod(shape[:-2]) for shape in self.part_shapes]
        return (0, *itertools.accumulate(counts))

    def physical_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        assert shape == self.shape, "the layout was made for other weights"
        return (self.first_rows[-1], self.block_out, self.block_in)

    def pack(self, array: Array) -> Array:
        rows = np.zeros(self.physical_shape(array.shape), dtype=array.dtype)
        for part, first, shape in zip(self.parts, self.first_rows, self.part_shapes, strict=False):
            if all(axis.taps for axis in part):
                taps = array[:, :, part[0].taps][:, :, :, part[1].taps]
                packed = self._dense.pack(taps).reshape(-1, *shape[-2:])
                rows[first : first + len(packed)] = packed
        return rows

    def unpack(self, array: Array) -> Array:
        outs, ins, *_ = self._dense.physical_shape(self.shape)
        extents = (outs * self.block_out, ins * self.block_in, *self.shape[2:])
        weights = np.zeros(extents, dtype=array.dtype)
        ends = self.first_rows[1:]
        for part, first, end, shape in zip(
            self.parts, self.first_rows, ends, self.part_shapes, strict=False
        ):
            taps = self._dense.unpack(array[first:end].reshape(shape))
            at = np.ix_(range(extents[0]), range(extents[1]), part[0].taps, part[1].taps)
            weights[at] = taps[:, :, : len(part[0].taps), : len(part[1].taps)]
        return weights

    @property
    def _dense(self) -> WeightLayout:
        return WeightLayout(self.block_out, self.block_in)

    def __str__(self) -> str:
        return f"{len(self.parts)}pOIHW{self.block_out}o{self.block_in}i"
