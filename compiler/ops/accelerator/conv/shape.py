"""`ConvShape`: the parameters that determine the choice of a convolution's tiles.

Input: the operands and the result of `daedal.compiler.ops.conv2d`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from daedal.compiler import te
from daedal.compiler.ops.accelerator.fused_tail import NO_TAIL, FusedTail
from daedal.compiler.windows import window_span

__all__ = ["ConvShape"]


@dataclass(frozen=True)
class ConvShape:
    """Blocks of channels, output map and window.

    A block of channels has `in_parts` input rows and `out_parts` accumulator rows per pixel. With
    `groups`, the batches are images times groups, and the blocks are those of one group. `needed`
    is the share of products that are computed, which excludes those with padding zeros. `tail` is
    the fused operator. A channel has parameters for each of the `classes` of outputs.
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

    @property
    def accumulators(self) -> int:
        """Accumulator rows per output vector: its own, and those of the tail."""
        return 1 + self.tail.rows

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
    ) -> "ConvShape":
        """From the operands and the result of `daedal.compiler.ops.conv2d`.

        For windows one row high, skipped rows are not on chip.
        """
        needed = 1.0
        for dim, pad in enumerate(pads[:2]) if pad_value == 0 else ():
            positions = (x.shape[2 + dim], y.shape[2 + dim], w.shape[2 + dim])
            needed *= _inside(*positions, strides[dim], dilations[dim], pad)
        batches, out_blocks, height, width, out_parts, _, _ = y.shape
        return cls(
            batches,
            out_blocks,
            x.shape[1],
            height,
            width,
            (w.shape[2], w.shape[3]),
            (1 if w.shape[2] == 1 else strides[0], strides[1]),
            dilations,
            x.shape[4],
            out_parts,
            w.shape[0] // (out_blocks * out_parts),
            needed,
            tail,
            classes,
        )

    @property
    def weight_rows(self) -> int:
        """Weight rows for one block of input channels and one of output channels."""
        return self.kernel[0] * self.kernel[1] * self.in_parts * self.out_parts

    def input_rows(self, height: int, width: int) -> int:
        """Input rows of one block that a tile of the output reads."""
        reach = [
            window_span(size, kernel, stride, dilation)
            for size, stride, kernel, dilation in zip(
                (height, width), self.strides, self.kernel, self.dilations, strict=True
            )
        ]
        return reach[0] * reach[1] * self.in_parts


def _inside(size: int, outputs: int, taps: int, stride: int, dilation: int, pad: int) -> float:
    """Share of the pairs of output and tap that read inside the map, in one dimension."""
    inside = sum(
        0 <= output * stride + tap * dilation - pad < size
        for output in range(outputs)
        for tap in range(taps)
    )
    return inside / (outputs * taps)
