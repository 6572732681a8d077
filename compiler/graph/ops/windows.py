"""Sliding windows over NCHW maps: shapes, views and exact convolution in numpy."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from daedal.compiler.graph.ops.registry import require
from daedal.compiler.graph.window_extents import output_extent, window_reach

__all__ = ["check_window", "convolve", "output_extents", "sliding_windows"]

Array = npt.NDArray[Any]


def check_window(
    kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int], dilations: Sequence[int]
) -> None:
    """Raise ModelError unless the numbers describe a two-dimensional window."""
    for name, values, length, least in (
        ("kernel_shape", kernel, 2, 1),
        ("strides", strides, 2, 1),
        ("dilations", dilations, 2, 1),
        ("pads", pads, 4, 0),
    ):
        require(
            len(values) == length and all(least <= value <= 1 << 16 for value in values),
            f"{name} must be {length} integers from {least} to 65536, not {list(values)}; "
            "only two-dimensional windows are supported",
        )


def output_extents(
    extents: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
) -> tuple[int, int]:
    """Height and width of the result; `pads` is (top, left, bottom, right).

    Raises ModelError where no window fits.
    """
    check_window(kernel, strides, pads, dilations)
    result = []
    for axis in range(2):
        reach = window_reach(kernel[axis], dilations[axis])
        sides = (pads[axis], pads[axis + 2])
        padded = extents[axis] + sum(sides)
        require(
            padded >= reach,
            f"the window must fit into the padded map, but a window of {reach} meets "
            f"{padded} elements on axis {axis + 2}; pad the map or use a smaller kernel",
        )
        result.append(
            output_extent(extents[axis], kernel[axis], strides[axis], sides, dilations[axis])
        )
    return result[0], result[1]


def sliding_windows(
    x: Array,
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    pad_value: float,
) -> Array:
    """View of ``(N, C, H, W)`` as ``(N, C, OH, OW, KH, KW)`` windows over the padded map."""
    top, left, bottom, right = pads
    if any(pads):
        margins = [(0, 0), (0, 0), (top, bottom), (left, right)]
        x = np.pad(x, margins, constant_values=x.dtype.type(pad_value))
    reach = [window_reach(kernel[axis], dilations[axis]) for axis in range(2)]
    windows = np.lib.stride_tricks.sliding_window_view(x, reach, axis=(2, 3))
    return windows[:, :, :: strides[0], :: strides[1], :: dilations[0], :: dilations[1]]


def convolve(
    x: Array,
    w: Array,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    groups: int,
    pad_value: float,
) -> Array:
    """Correlate ``(N, C, H, W)`` with ``(O, C/groups, KH, KW)`` in the operands' float type.

    In float64 the result is exact for integers as long as every sum stays below 2**53.
    """
    o, per_group, kh, kw = w.shape
    windows = sliding_windows(x, (kh, kw), strides, pads, dilations, pad_value)
    n, _, oh, ow = windows.shape[:4]
    columns = windows.transpose(1, 4, 5, 0, 2, 3).reshape(groups, per_group * kh * kw, n * oh * ow)
    products = w.reshape(groups, o // groups, per_group * kh * kw) @ columns
    return products.reshape(o, n, oh, ow).transpose(1, 0, 2, 3)
