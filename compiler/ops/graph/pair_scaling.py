"""`pair_ratios`: scaled sums of two int8 in float32 that are rounded as the integer sums.

``rhe((a * multiplier_a + b * multiplier_b + bias) * ratio)`` of REQUANTIZE has 65,536 operands, so
all of them can be compared with ``rhe(a * first + b * second + offset)`` in float32. Few sums come
as close to a tie as float32 errs, and with another last bit of a factor or of the offset these come
to lie on the right side.
"""

import itertools
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from daedal.compiler.graph.graph import Array

__all__ = ["PairRatios", "pair_ratios"]

LARGEST_PRODUCT = 1 << 21
"""Of a scaled sum, whose nearest integer must be an int32."""
STEP, STEPS = 2.0**-19, (0, 1, -1, 2, -2, 4, -4, 8, -8)
"""By how much, and how often, the offset is moved: what lies closer to a tie is rare."""


@dataclass(frozen=True)
class PairRatios:
    """The factors of both operands and what is added, float32 values."""

    first: float
    second: float
    offset: float

    def rounded(self) -> Array:
        """The nearest integers to all sums, (256, 256)."""
        values = np.arange(-128, 128, dtype=np.float32)
        sums = (values * np.float32(self.first))[:, None] + values * np.float32(self.second)
        return np.rint(sums + np.float32(self.offset))


def pair_ratios(multipliers: tuple[int, int], row: Array, low: int, high: int) -> PairRatios | None:
    """What gives all rounded sums between `low` and `high`; None where nothing that is tried does.

    Parameters
    ----------
    multipliers : of the two int8.
    row : [bias, multiplier, shift] of the sum.
    low, high : bounds of the rounded sums.
    """
    bias, multiplier, shift = (int(value) for value in row)
    factors = [float(Fraction(by * multiplier, 1 << shift)) for by in (*multipliers, bias)]
    reach = 128 * (abs(factors[0]) + abs(factors[1])) + abs(factors[2])
    if reach >= LARGEST_PRODUCT or not 0 < shift < 62:
        return None
    values = np.arange(-128, 128, dtype=np.int64)
    sums = (values * multipliers[0])[:, None] + values * multipliers[1] + bias
    products = sums * multiplier
    whole = products >> shift
    rest, half = products - (whole << shift), 1 << (shift - 1)
    wanted = whole + ((rest > half) | ((rest == half) & (whole % 2 == 1)))
    wanted = wanted.clip(low, high)
    first, second, offset = (np.float32(item) for item in factors)
    for steps, near_first, near_second in itertools.product(
        STEPS, _neighbours(first), _neighbours(second)
    ):
        found = PairRatios(near_first, near_second, float(offset + np.float32(steps * STEP)))
        if np.array_equal(found.rounded().clip(low, high), wanted):
            return found
    return None


def _neighbours(value: np.float32) -> tuple[float, ...]:
    """A float32, and the next ones below and above."""
    ends = (np.nextafter(value, np.float32(end)) for end in (-np.inf, np.inf))
    return (float(value), *map(float, ends))
