"""Chooses, from histograms, the ranges of real values that 8 bits represent."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from daedal.compiler.graph.graph import Array

__all__ = ["WIDE_HEADROOM", "Histogram", "Method", "Range", "choose_range", "wide_scale"]

_NUM_BINS = 2048
_STEPS = 255
"""Steps between the smallest and the largest of 256 values."""

_LARGEST = 127
"""Steps between zero and the largest of 8 bits."""

_CANDIDATES = 64
"""Clipped bounds that are tried on each side of zero."""

_PERCENTILE = 99.99

_SMALLEST_SCALE = 2.0**-40
"""Products of two such scales are still normal numbers of float32."""

_LARGEST_SCALE = 2.0**119
"""255 steps of it are still finite in float32. Values beyond are clipped."""

_WIDE_STEPS = 32767
"""Steps between zero and the largest of 16 bits."""

WIDE_HEADROOM = 2.0
"""Of 16 bits: values may exceed those of the samples. Clipped residual streams are lost, and one
of 16 bits is not missed."""


class Method(StrEnum):
    """How a range is chosen from the observed values."""

    MINMAX = "minmax"
    """From the smallest to the largest value."""
    PERCENTILE = "percentile"
    """All but the 0.01 % of largest magnitude on each side of zero."""
    MSE = "mse"
    """The range with the least mean squared quantization error."""


@dataclass(frozen=True)
class Range:
    """Real values from `low` to `high`, which include 0."""

    low: float
    high: float

    def join(self, other: "Range") -> "Range":
        """The smallest range that holds both."""
        return Range(min(self.low, other.low), max(self.high, other.high))

    def quantization(self) -> tuple[np.float32, np.int8]:
        """Scale and zero point, with 0 on the grid.

        Source: ONNX QuantizeLinear-13, ``q = saturate(round(x / scale) + zero_point)``.
        """
        step = (self.high - self.low) / _STEPS
        scale = np.float32(min(max(step, _SMALLEST_SCALE), _LARGEST_SCALE))
        zero_point = np.clip(np.rint(-128 - self.low / float(scale)), -128, 127)
        return scale, np.int8(zero_point)

    def symmetric_quantization(self) -> tuple[np.float32, np.int8]:
        """Scale and zero point, which is 0."""
        step = max(-self.low, self.high) / _LARGEST
        return np.float32(min(max(step, _SMALLEST_SCALE), _LARGEST_SCALE)), np.int8(0)

    def wide_quantization(self) -> tuple[np.float32, np.int16]:
        """Scale and zero point in 16 bits, symmetric, with room for larger values.

        Source: ONNX QuantizeLinear-21.
        """
        return wide_scale(max(-self.low, self.high)), np.int16(0)


def wide_scale(largest: float) -> np.float32:
    """The scale of 16 bits for values up to `largest`, with room for larger ones."""
    step = largest * WIDE_HEADROOM / _WIDE_STEPS
    return np.float32(min(max(step, _SMALLEST_SCALE), _LARGEST_SCALE))


@dataclass
class Histogram:
    """Counts of values between bounds that include 0.

    Values of exactly 0 are left out: every quantization holds them without an error.
    """

    edges: Array
    counts: Array

    @classmethod
    def empty(cls, low: float, high: float) -> "Histogram":
        """A histogram without values."""
        return cls(np.linspace(low, high, _NUM_BINS + 1), np.zeros(_NUM_BINS, dtype=np.int64))

    def add(self, values: Array) -> None:
        """Count `values`; those beyond the bounds count as the bound."""
        if self.edges[0] < self.edges[-1]:
            known = np.clip(values[values != 0], self.edges[0], self.edges[-1])
            counts, _ = np.histogram(known, self.edges)
            self.counts += counts

    @property
    def range(self) -> Range:
        """From bound to bound."""
        return Range(float(self.edges[0]), float(self.edges[-1]))


def choose_range(histogram: Histogram, method: Method) -> Range:
    """The range by `method`, or the bounds of an empty histogram."""
    if method == Method.MINMAX or not histogram.counts.any():
        return histogram.range
    if method == Method.PERCENTILE:
        return _percentile(histogram)
    return _least_error(histogram)


def _percentile(histogram: Histogram) -> Range:
    rest = (100 - _PERCENTILE) / 100
    shares = np.cumsum(histogram.counts) / histogram.counts.sum()
    first = int(np.searchsorted(shares, rest, side="right"))
    last = int(np.searchsorted(shares, 1 - rest, side="left"))
    low, high = histogram.edges[first], histogram.edges[last + 1]
    return Range(min(float(low), 0.0), max(float(high), 0.0))


def _least_error(histogram: Histogram) -> Range:
    """Of all pairs of clipped bounds, the one with the least squared error.

    A value inside has a rounding error that is uniformly distributed over a step: a twelfth of the
    step's square. A value outside is clipped.
    """
    whole = histogram.range
    fractions = np.arange(1, _CANDIDATES + 1) / _CANDIDATES
    lows = whole.low * fractions if whole.low < 0 else np.zeros(1)
    highs = whole.high * fractions if whole.high > 0 else np.zeros(1)
    centers = (histogram.edges[:-1] + histogram.edges[1:]) / 2
    below = _clipped(-centers[::-1], histogram.counts[::-1], -lows)
    above = _clipped(centers, histogram.counts, highs)
    outside = below[0][:, None] + above[0][None, :]
    inside = histogram.counts.sum() - below[1][:, None] - above[1][None, :]
    steps = (highs[None, :] - lows[:, None]) / _STEPS
    errors = outside + inside * steps**2 / 12
    row, column = np.unravel_index(int(np.argmin(errors)), errors.shape)
    return Range(float(lows[row]), float(highs[column]))


def _clipped(centers: Array, counts: Array, bounds: Array) -> tuple[Array, Array]:
    """Squared error of clipping all values above each bound to it, and the number of these.

    `centers` ascend. ``sum (x - b)**2 = sum x**2 - 2 b sum x + b**2 n`` over the values above.
    """
    sums = [
        np.concatenate([np.cumsum((counts * centers**power)[::-1])[::-1], [0.0]])
        for power in range(3)
    ]
    first = np.searchsorted(centers, bounds, side="right")
    number, total, squares = (item[first] for item in sums)
    return squares - 2 * bounds * total + bounds**2 * number, number
