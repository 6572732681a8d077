"""`pair_ratios`: scaled sums of two int8 in float32 that are rounded as the integer sums.

``rhe((a * multiplier_a + b * multiplier_b + bias) * ratio) + zero_point`` of REQUANTIZE has 65,536
operands, so all of them can be compared with ``rhe(a * first + (b * second + offset))`` in float32,
whose products and sums may be rounded at once or one after the other. Few sums come as close to a
tie as float32 errs, and with another last bit of a factor or of the offset these come to lie on the
right side.
"""

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from daedal.compiler.graph.graph import Array

__all__ = ["PairRatios", "pair_ratios", "scaled_bytes"]

LARGEST_SUM, SMALLEST_FACTOR = 1 << 12, 2.0**-14
"""Of scaled sums, and of factors: float64 is exact for their products and sums."""
LAST_BIT = 2.0**-24
"""Of offsets."""
STEP, STEPS = 2.0**-19, (0, 1, -1, 2, -2, 3, -3, 5, -5, 8, -8, 13, -13)
"""By how much, and how often, the offset is moved: what lies closer to a tie is rare."""


@dataclass(frozen=True)
class PairRatios:
    """The factors of both operands and what is added, float32 values."""

    first: float
    second: float
    offset: float

    def rounded(self) -> tuple[Array, Array]:
        """The nearest integers to all sums, (256, 256): rounded after each operation, and once
        after a product and a sum."""
        values, first, second, offset = (
            np.asarray(item, np.float32)
            for item in (np.arange(-128, 128), self.first, self.second, self.offset)
        )
        twice = (values * first)[:, None] + (values * second + offset)
        wide = values.astype(np.float64)
        inner = (wide * second + offset).astype(np.float32)
        once = ((wide * first)[:, None] + inner).astype(np.float32)
        return np.rint(twice), np.rint(once)


def pair_ratios(
    multipliers: tuple[int, int], row: Array, low: int, high: int, zero_point: int = 0
) -> PairRatios | None:
    """What gives all rounded sums between `low` and `high`; None where nothing that is tried does.

    Parameters
    ----------
    multipliers : of the two int8.
    row : [bias, multiplier, shift] of the sum.
    low, high : bounds of the rounded sums with `zero_point`.
    """
    bias, multiplier, shift = (int(value) for value in row)
    factors = [float(Fraction(by * multiplier, 1 << shift)) for by in (*multipliers, bias)]
    factors[2] += zero_point
    reach = 128 * (abs(factors[0]) + abs(factors[1])) + abs(factors[2])
    least = min(abs(factors[0]), abs(factors[1]))
    if reach >= LARGEST_SUM or least < SMALLEST_FACTOR or not 0 < shift < 62:
        return None
    wanted = (_whole_sums(multipliers, bias, multiplier, shift) + zero_point).clip(low, high)
    first, second = (np.float32(item) for item in factors[:2])
    for steps, near_first, near_second in itertools.product(
        STEPS, _neighbours(first), _neighbours(second)
    ):
        offset = math.floor((factors[2] + steps * STEP) / LAST_BIT + 0.5) * LAST_BIT
        found = PairRatios(near_first, near_second, float(np.float32(offset)))
        if all(np.array_equal(item.clip(low, high), wanted) for item in found.rounded()):
            return found
    return None


def scaled_bytes(
    weights: Array, rows: Array, low: int, high: int, zero_point: int = 0
) -> tuple[Array, Array] | None:
    """Factors and offsets, float32, that give all rounded products of an int8 and a weight.

    Parameters
    ----------
    weights : (rows,).
    rows : [bias, multiplier, shift] of each product.
    low, high : bounds of the rounded products with `zero_point`.
    """
    biases, multipliers, shifts = (rows[:, column].astype(np.int64) for column in range(3))
    values = np.arange(-128, 128, dtype=np.int64)
    sums = values * weights.astype(np.int64)[:, None] + biases[:, None]
    ratios = np.ldexp(multipliers.astype(np.float64), -shifts)
    factors, offsets = weights * ratios, biases * ratios + zero_point
    if np.any(np.abs(sums) * ratios[:, None] >= LARGEST_SUM) or not np.all(
        (shifts > 0) & (shifts < 62)
    ):
        return None
    wanted = _rounded(sums * multipliers[:, None], shifts[:, None]) + zero_point
    wanted = wanted.clip(low, high)
    found = np.zeros((2, len(rows)), np.float32)
    open_rows = np.arange(len(rows))
    for steps in STEPS:
        first = factors[open_rows].astype(np.float32)
        moved = np.rint((offsets[open_rows] + steps * STEP) / LAST_BIT) * LAST_BIT
        offset = moved.astype(np.float32)
        given = values.astype(np.float32)
        twice = given * first[:, None] + offset[:, None]
        once = (given.astype(np.float64) * first[:, None] + offset[:, None]).astype(np.float32)
        fits = np.ones(len(open_rows), bool)
        for item in (twice, once):
            fits &= np.all(np.rint(item).clip(low, high) == wanted[open_rows], axis=1)
        found[:, open_rows[fits]] = first[fits], offset[fits]
        open_rows = open_rows[~fits]
        if not len(open_rows):
            return found[0], found[1]
    return None


def _whole_sums(multipliers: tuple[int, int], bias: int, multiplier: int, shift: int) -> Array:
    """All sums, scaled and rounded as integers, (256, 256)."""
    values = np.arange(-128, 128, dtype=np.int64)
    sums = (values * multipliers[0])[:, None] + values * multipliers[1] + bias
    return _rounded(sums * multiplier, np.asarray(shift))


def _rounded(products: Array, shifts: Array) -> Array:
    """Shifted to the right, halves to even."""
    whole = products >> shifts
    rest, half = products - (whole << shifts), np.int64(1) << (shifts - 1)
    return np.asarray(whole + ((rest > half) | ((rest == half) & (whole % 2 == 1))))


def _neighbours(value: np.float32) -> tuple[float, ...]:
    """A float32, and the next ones below and above."""
    ends = (np.nextafter(value, np.float32(end)) for end in (-np.inf, np.inf))
    return (float(value), *map(float, ends))
