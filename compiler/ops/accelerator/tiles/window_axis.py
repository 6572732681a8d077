"""`WindowAxis`: exact counts of what tiles of windows load and multiply, in one dimension.

For lower bounds, which may not round up: tiles that reach into the padding load less.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from daedal.compiler.ops.space import Column

__all__ = ["WindowAxis", "by_pair", "window_axes"]

Pair = tuple[int, int]


@dataclass(frozen=True)
class WindowAxis:
    """Where the windows of the outputs lie, in one dimension.

    Parameters
    ----------
    size, outputs : elements of the input and of the output.
    pad : elements of padding before the input.
    skips : whether products with padding are left out.
    gathers : whether elements between the taps are not loaded.
    """

    size: int
    outputs: int
    kernel: int
    stride: int
    dilation: int
    pad: int
    skips: bool
    gathers: bool

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

    def pairs(self, tile: int, joined: int = 1) -> int:
        """Products of the outputs of the first tile; one takes `joined` adjacent taps."""
        outputs = min(tile, self.outputs)
        if not self.skips:
            return outputs * (self.kernel // joined)
        places = self._places(0, outputs, 0, self.kernel)
        inside = (places >= 0) & (places < self.size)
        return int(np.count_nonzero(inside.reshape(outputs, -1, joined).any(axis=2)))

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


def window_axes(
    sizes: Pair,
    outputs: Pair,
    windows: tuple[Pair, Pair, Pair, Pair],
    *,
    skips: bool,
    gathers_rows: bool = False,
) -> tuple[WindowAxis, WindowAxis]:
    """Rows and columns; `windows` are kernel, strides, dilations and padding before the input."""
    rows, columns = (
        WindowAxis(size, count, kernel, stride, dilation, pad, skips, gathers)
        for size, count, kernel, stride, dilation, pad, gathers in zip(
            sizes, outputs, *windows, (gathers_rows, False), strict=True
        )
    )
    return rows, columns


def by_pair(function: Callable[[int, int], int], a: Column, b: Column) -> Column:
    """`function` of every row, evaluated once for each pair that occurs."""
    known = cache(function)
    return np.array([known(*pair) for pair in zip(a.tolist(), b.tolist(), strict=True)], np.int64)
