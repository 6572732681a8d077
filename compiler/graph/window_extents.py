"""Sliding windows along one dimension of a map: how many there are, and what they span."""

from typing import overload

import numpy as np
import numpy.typing as npt

__all__ = ["Extent", "output_extent", "pool_extent", "window_reach", "window_span"]

Extent = int | npt.NDArray[np.int64]
"""A number of elements, or a column of them."""


@overload
def window_reach(kernel: int, dilation: int = 1) -> int: ...
@overload
def window_reach(kernel: Extent, dilation: int = 1) -> Extent: ...
def window_reach(kernel: Extent, dilation: int = 1) -> Extent:
    """Elements from the first tap of a window to its last."""
    return (kernel - 1) * dilation + 1


def output_extent(
    size: int, kernel: int, stride: int, pads: tuple[int, int] = (0, 0), dilation: int = 1
) -> int:
    """Number of windows over `size` elements with `pads` before and after them.

    Not positive where the window does not fit.

    Source: ONNX Conv-11, MaxPool-12 with ceil_mode 0: rounding is floor.
    """
    return (size + sum(pads) - window_reach(kernel, dilation)) // stride + 1


def pool_extent(
    size: int,
    kernel: int,
    stride: int,
    pads: tuple[int, int] = (0, 0),
    dilation: int = 1,
    *,
    ceil: bool = False,
) -> int:
    """Number of windows of a pool, which rounds up with `ceil`.

    A last window may reach beyond the pads, but must begin before the pad behind the map; so may
    the only window of a map that is smaller than it, by less than a stride. Not positive where no
    window fits.

    Source: ONNX, MaxPool-22, ceil_mode; onnxruntime, pool_attributes.h, whose division rounds
    towards 0.
    """
    free = size + sum(pads) - window_reach(kernel, dilation)
    if not ceil and free >= 0:
        return free // stride + 1
    steps = -(-free // stride)
    return steps if steps * stride >= size + pads[0] else steps + 1


@overload
def window_span(num_windows: int, kernel: int, stride: int, dilation: int = 1) -> int: ...
@overload
def window_span(num_windows: Extent, kernel: Extent, stride: int, dilation: int = 1) -> Extent: ...
def window_span(num_windows: Extent, kernel: Extent, stride: int, dilation: int = 1) -> Extent:
    """Elements from the first tap of the first window to the last tap of the last one."""
    return (num_windows - 1) * stride + window_reach(kernel, dilation)
