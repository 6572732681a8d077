"""`ConvShape`: the parameters that determine the choice of a convolution's tiles.

Input: the operands and the result of `daedal.compiler.ops.conv2d`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from daedal.compiler import te
from daedal.compiler.graph.window_extents import Extent, window_span
from daedal.compiler.ops.accelerator.fused_tail import NO_TAIL, FusedTail
from daedal.compiler.ops.accelerator.tiles.window_axis import WindowAxis, window_axes
from daedal.compiler.ops.conv2d import Gather

__all__ = ["ConvShape"]


@dataclass(frozen=True)
class ConvShape:
    """Blocks of channels, output map and window.

    A block of channels has `in_parts` input rows and `out_parts` accumulator rows per pixel. With
    `groups`, the batches are images times groups, and the blocks are those of one group. `needed`
    is the share of products that are computed, which excludes those with padding zeros. `tail` is
    the fused operator. A channel has parameters for each of the `classes` of outputs. `size` are
    rows and columns of the input map, and `inside` is the share of the pairs of an output row and a
    row of its window that are not padding. `gather` is that of the function to schedule. `pads` are
    those at the top and on the left; with `skips_padding`, products with padding are left out. With
    `narrow_weights`, weights have 4 bits in memory.
    """

    batches: int
    out_blocks: int
    in_blocks: int
    height: int
    width: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    in_parts: int = 1
    out_parts: int = 1
    groups: int = 1
    needed: float = 1.0
    tail: FusedTail = NO_TAIL
    classes: int = 1
    size: tuple[int, int] = (1 << 30, 1 << 30)
    inside: float = 1.0
    gather: Gather = Gather.NOTHING
    pads: tuple[int, int] = (0, 0)
    skips_padding: bool = False
    narrow_weights: bool = False

    @property
    def accumulators(self) -> int:
        """Accumulator rows per output vector: its own, and those of the tail."""
        return 1 + self.tail.rows

    @property
    def weight_sets(self) -> int:
        """The groups of a grouped convolution have weights of their own, image by image."""
        return self.batches if self.groups > 1 else 1

    @property
    def gathers_rows(self) -> bool:
        """Whether only rows that windows read are on chip."""
        return self.gather is not Gather.NOTHING

    @property
    def axes(self) -> tuple[WindowAxis, WindowAxis]:
        """Rows and columns."""
        return window_axes(
            self.size,
            (self.height, self.width),
            (self.kernel, self.strides, self.dilations, self.pads),
            skips=self.skips_padding,
            gathers_rows=self.gathers_rows,
        )

    @property
    def skips_columns(self) -> bool:
        """Whether products with padding are left out column by column of the window."""
        return self.skips_padding and self.pads[1] > 0

    @classmethod
    def of(
        cls,
        x: te.Tensor,
        w: te.Tensor,
        y: te.Tensor,
        strides: tuple[int, int],
        dilations: tuple[int, int],
        pads: Sequence[int] = (0, 0, 0, 0),
        pad_value: int = 0,
        tail: FusedTail = NO_TAIL,
        classes: int = 1,
        gather: Gather | None = None,
    ) -> "ConvShape":
        """From the operands and the result of `daedal.compiler.ops.conv2d`."""
        inside = [
            _inside(*extents, strides[dim], dilations[dim], pads[dim])
            for dim, extents in enumerate(
                zip(x.shape[2:4], y.shape[2:4], w.shape[2:4], strict=True)
            )
        ]
        batches, out_blocks, height, width, out_parts, _, _ = y.shape
        return cls(
            batches,
            out_blocks,
            x.shape[1],
            height,
            width,
            (w.shape[2], w.shape[3]),
            strides,
            dilations,
            x.shape[4],
            out_parts,
            w.shape[0] // (out_blocks * out_parts),
            inside[0] * inside[1] if pad_value == 0 else 1.0,
            tail,
            classes,
            (x.shape[2], x.shape[3]),
            inside[0],
            gather or Gather.of(w.shape[2:4], strides),
            (pads[0], pads[1]),
            pad_value == 0,
        )

    def weight_rows(self, taps: tuple[Extent, Extent] | None = None) -> Extent:
        """Weight rows for one block of input channels and one of output channels, and for `taps` of
        the window, all of them if None."""
        rows, columns = taps or self.kernel
        return rows * columns * self.in_parts * self.out_parts

    def input_rows(
        self, height: Extent, width: Extent, taps: tuple[Extent, Extent] | None = None
    ) -> Extent:
        """Scratchpad rows of one block that a tile of the output reads for `taps` of its windows,
        all of them if None."""
        rows, columns = self._reach(height, width, taps or self.kernel)
        return rows * columns * self.in_parts

    def loaded_rows(
        self, height: Extent, width: Extent, taps: tuple[Extent, Extent] | None = None
    ) -> npt.NDArray[np.float64]:
        """Those of `input_rows` that are read from memory; the others are padding."""
        rows, columns = self._reach(height, width, taps or self.kernel)
        inside = np.where(self.gathers_rows, rows * self.inside, np.minimum(rows, self.size[0]))
        return np.asarray(inside * np.minimum(columns, self.size[1]) * self.in_parts, np.float64)

    def _reach(
        self, height: Extent, width: Extent, taps: tuple[Extent, Extent]
    ) -> tuple[Extent, Extent]:
        """Rows and columns that are on chip."""
        rows, columns = self._spans(height, width, taps)
        return height * taps[0] if self.gathers_rows else rows, columns

    def _spans(
        self, height: Extent, width: Extent, taps: tuple[Extent, Extent]
    ) -> tuple[Extent, Extent]:
        """Rows and columns from the first that is read to the last."""
        rows, columns = (
            window_span(size, count, stride, dilation)
            for size, stride, count, dilation in zip(
                (height, width), self.strides, taps, self.dilations, strict=True
            )
        )
        return rows, columns


def _inside(size: int, outputs: int, taps: int, stride: int, dilation: int, pad: int) -> float:
    """Share of the pairs of output and tap that read inside the map, in one dimension."""
    inside = sum(
        0 <= output * stride + tap * dilation - pad < size
        for output in range(outputs)
        for tap in range(taps)
    )
    return inside / (outputs * taps)
