"""`StreamShape`: what determines the tiles of a convolution over streams."""

from dataclasses import dataclass
from typing import overload

from daedal.compiler import te
from daedal.compiler.graph.window_extents import Extent
from daedal.compiler.ops.accelerator.fused_tail import NO_TAIL, FusedTail
from daedal.compiler.ops.conv2d_stream import StreamWindow
from daedal.compiler.ops.space import Column

__all__ = ["StreamShape"]


@dataclass(frozen=True)
class StreamShape:
    """Parameters that determine the choice of tiles.

    Parameters
    ----------
    batches, out_blocks, out_parts : blocks of images and output channels; vectors of a block.
    window : the movement of windows; its extent is the output map.
    planes, lanes : of the stream.
    weight_rows : rows of weights for one output vector.
    groups, vectors : row groups of a window, and vectors in each.
    tail : the fused operator.
    """

    batches: int
    out_blocks: int
    out_parts: int
    window: StreamWindow
    planes: int
    lanes: int
    weight_rows: int
    groups: int
    vectors: int
    tail: FusedTail = NO_TAIL

    @classmethod
    def of(
        cls,
        x: te.Tensor,
        w: te.Tensor,
        y: te.Tensor,
        window: StreamWindow,
        tail: FusedTail = NO_TAIL,
    ) -> "StreamShape":
        """From the operands and the result of `daedal.compiler.ops.conv2d_stream`."""
        _, phases, groups, vectors, _, lanes = w.shape
        return cls(
            batches=y.shape[0],
            out_blocks=y.shape[1],
            out_parts=y.shape[4],
            window=window,
            planes=x.shape[1],
            lanes=lanes,
            weight_rows=phases * groups * vectors,
            groups=groups,
            vectors=vectors,
            tail=tail,
        )

    @property
    def period(self) -> int:
        """Number of windows after which one begins at a scratchpad row again."""
        return next(
            count
            for count in range(1, self.lanes + 1)
            if count * self.window.step % self.lanes == 0
        )

    @property
    def row_products(self) -> int:
        """Products of a row of windows, for one output vector."""
        counts, columns = self.window.vectors, self.window.extent[1]
        return self.groups * sum(counts[column % len(counts)] for column in range(columns))

    @overload
    def input_rows(self, height: int, width: int) -> int: ...
    @overload
    def input_rows(self, height: Column, width: Column) -> Column: ...
    def input_rows(self, height: Extent, width: Extent) -> Extent:
        """Input rows that a tile of the output reads."""
        groups = (height - 1) * self.window.groups_down + self.groups
        reach = ((width - 1) * self.window.step + self.lanes - 1) // self.lanes
        return self.planes * groups * (reach + self.vectors)
