"""A transposed convolution as dense ones: one for each output position modulo the strides.

An output at ``h`` sums the taps r for which ``h + pad - r * dilation`` is a multiple of the stride.
These taps are the same for all outputs ``phase, phase + stride, ...``. They read adjacent inputs,
or every d-th one, in reverse order of r.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from daedal.compiler.graph.window_extents import window_span

__all__ = ["SubAxis", "SubKernel", "sub_kernels", "transposed_extents"]


@dataclass(frozen=True)
class SubAxis:
    """One residue along one axis.

    Parameters
    ----------
    phase : the first output; the others follow at multiples of the stride.
    extent : number of outputs.
    taps : taps of the kernel in the order of the inputs that they read; may be empty.
    pad : the first output reads its first input at ``-pad``, before the map or inside it.
    dilation : distance between the inputs.
    """

    phase: int
    extent: int
    taps: tuple[int, ...]
    pad: int
    dilation: int

    def pads(self, size: int) -> tuple[int, int]:
        """Padding before and after a map of `size` for a dense convolution; may be negative."""
        reach = self.extent + self.dilation * max(0, len(self.taps) - 1)
        return self.pad, reach - size - self.pad


SubKernel = tuple[SubAxis, SubAxis]
"""Rows and columns of one dense convolution."""


def transposed_extents(
    extents: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    output_padding: Sequence[int],
) -> tuple[int, int]:
    """Height and width of the result; `pads` is (top, left, bottom, right).

    Source: ONNX ConvTranspose-11, output_shape.
    """
    height, width = (
        window_span(extents[axis], kernel[axis], strides[axis], dilations[axis])
        + output_padding[axis]
        - pads[axis]
        - pads[axis + 2]
        for axis in range(2)
    )
    return height, width


def sub_kernels(
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    outputs: Sequence[int],
) -> tuple[SubKernel, ...]:
    """The dense convolutions that compute `outputs` rows and columns, in row-major order."""
    rows, columns = (
        [
            _sub_axis(kernel[axis], strides[axis], pads[axis], dilations[axis], phase, count)
            for phase in range(strides[axis])
            if (count := -(-(outputs[axis] - phase) // strides[axis])) > 0
        ]
        for axis in range(2)
    )
    return tuple(itertools.product(rows, columns))


def _sub_axis(
    kernel: int, stride: int, pad: int, dilation: int, phase: int, extent: int
) -> SubAxis:
    found = [tap for tap in range(kernel) if (phase + pad - tap * dilation) % stride == 0]
    taps = tuple(reversed(found))
    first = (phase + pad - taps[0] * dilation) // stride if taps else 0
    return SubAxis(phase, extent, taps, -first, dilation // math.gcd(stride, dilation))
