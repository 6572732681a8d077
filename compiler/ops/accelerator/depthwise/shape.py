"""Shape of a depthwise convolution, as far as its tiling depends on it, and its tiles."""

from dataclasses import dataclass
from math import prod
from typing import overload

from daedal.compiler import te
from daedal.compiler.codegen.vectors import group_pitch
from daedal.compiler.graph.window_extents import Extent, window_span
from daedal.compiler.ops.accelerator.fused_tail import NO_TAIL, FusedTail
from daedal.compiler.ops.accelerator.tiles.tile_space import ceil_div
from daedal.compiler.ops.accelerator.tiles.window_axis import WindowAxis, window_axes
from daedal.compiler.ops.space import Column

__all__ = ["DepthwiseShape", "DepthwiseTile"]


@dataclass(frozen=True)
class DepthwiseShape:
    """Blocks of channels, the maps, the window.

    `window` includes the columns of zero weights that fill up the last product of each row. `pads`
    are those above and to the left of the map. `tail` is the fused operator. `skips_padding` says
    whether products with padding can be left out, `narrow_weights` whether weights have 4 bits in
    memory.
    """

    batches: int
    blocks: int
    input_height: int
    input_width: int
    height: int
    width: int
    window: tuple[int, int]
    taps: int
    strides: tuple[int, int]
    dilations: tuple[int, int]
    pads: tuple[int, int]
    tail: FusedTail = NO_TAIL
    skips_padding: bool = True
    narrow_weights: bool = False

    @property
    def axes(self) -> tuple[WindowAxis, WindowAxis]:
        """Rows and columns."""
        return window_axes(
            (self.input_height, self.input_width),
            (self.height, self.width),
            (self.window, self.strides, self.dilations, self.pads),
            skips=self.skips_padding,
        )

    @classmethod
    def of(
        cls,
        x: te.Tensor,
        w: te.Tensor,
        y: te.Tensor,
        *,
        strides: tuple[int, int],
        dilations: tuple[int, int],
        pads: tuple[int, int],
        tail: FusedTail = NO_TAIL,
        skips_padding: bool = True,
    ) -> "DepthwiseShape":
        """From the operands and the result of `daedal.compiler.ops.depthwise`."""
        batches, blocks, height, width, *_ = y.shape
        _, rows, groups, taps, _ = w.shape
        return cls(
            batches,
            blocks,
            x.shape[2],
            x.shape[3],
            height,
            width,
            (rows, groups * taps),
            taps,
            strides,
            dilations,
            pads,
            tail,
            skips_padding,
        )

    @property
    def products(self) -> int:
        """Products per output vector."""
        return prod(self.window) // self.taps

    def weight_rows(self, blocks: Column, block_out: int) -> Column:
        """Weight rows of `blocks` blocks of channels that start at the beginning of a row."""
        return ceil_div(blocks * (self.products * group_pitch(self.taps)), block_out)

    @overload
    def reach(self, axis: int, size: int) -> int: ...
    @overload
    def reach(self, axis: int, size: Column) -> Column: ...
    def reach(self, axis: int, size: Extent) -> Extent:
        """Input rows (axis 0) or columns (1) that `size` output ones read, pads included."""
        return window_span(size, self.window[axis], self.strides[axis], self.dilations[axis])

    @overload
    def input_size(self, height: int, width: int) -> tuple[int, int]: ...
    @overload
    def input_size(self, height: Column, width: Column) -> tuple[Column, Column]: ...
    def input_size(self, height: Extent, width: Extent) -> tuple[Extent, Extent]:
        """Input rows and columns that a tile of the output reads, pads included."""
        return self.reach(0, height), self.reach(1, width)

    def passing(self, axis: int, size: int) -> int:
        """Input rows or columns that all tiles of `size` load, pads excluded.

        The halo that neighbouring tiles share counts twice.
        """
        outputs = (self.height, self.width)[axis]
        limit = (self.input_height, self.input_width)[axis]
        total = 0
        for begin in range(0, outputs, size):
            low = begin * self.strides[axis] - self.pads[axis]
            high = low + self.reach(axis, min(size, outputs - begin))
            total += max(0, min(high, limit) - max(low, 0))
        return total


@dataclass(frozen=True)
class DepthwiseTile:
    """Blocks of channels and pixels of a tile; `groups` tiles of channels share their weights.

    With `keep_padding`, GEMM multiplies padding zeros, too.
    """

    blocks: int
    height: int
    width: int
    groups: int
    keep_padding: bool = False
