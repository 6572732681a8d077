"""`split_ratios`: ratios of REQUANTIZE as two float32 that round every sum as the ratios do.

A sum times a ratio is rounded to an integer between two ties, ``k - 1/2`` and ``k + 1/2``. Another
ratio gives the same integers if no sum, a whole number, comes to lie on the other side of a tie.
So for each tie the first sum behind it and the last one before it bound the ratio from both sides;
that in the middle of what all ties allow is as far from all of them as can be.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from daedal.compiler.graph.graph import Array

__all__ = ["SplitRatios", "split_ratios"]

Reals = npt.NDArray[np.float64]

MARGIN = 2.0**-24
"""How far products stay away from ties: twice the error of float32
(`native.bodies.nearest_products`)."""
LARGEST_PRODUCT = 1 << 21
EXACT = 1 << 24
"""Integers below are exact in float32."""
NEARLY = 2.0**-16
"""A tie that is so close to a whole sum is compared in integers."""


@dataclass(frozen=True)
class SplitRatios:
    """For each row what is added to the sums, and two float32 whose sum is the ratio. The second
    ones are all 0 where the first ones alone round every sum."""

    biases: Array
    first: Array
    second: Array

    @cached_property
    def is_single(self) -> bool:
        """Whether the first ones alone round every sum."""
        return not self.second.any()

    @cached_property
    def has_real_biases(self) -> bool:
        """Whether float32 holds the biases."""
        return int(np.abs(self.biases).max(initial=0)) < EXACT

    @cached_property
    def real_biases(self) -> Array:
        """The biases as float32."""
        return self.biases.astype(np.float32)


def split_ratios(rows: Array, largest: Array, low: int, high: int) -> SplitRatios | None:
    """What gives all rounded products between `low` and `high`; None where a row has no such pair.

    Parameters
    ----------
    rows : [bias, multiplier, shift] each, (rows, 3).
    largest : magnitude of the sums of each row without the bias.
    low, high : bounds of the rounded products.
    """
    given = np.ascontiguousarray(rows, np.int64), np.ascontiguousarray(largest, np.int64)
    return _split_ratios(*(item.tobytes() for item in given), low, high)


@lru_cache(maxsize=256)
def _split_ratios(
    row_bytes: bytes, largest_bytes: bytes, low: int, high: int
) -> SplitRatios | None:
    """The same of int64. Codes for several levels of processors ask for the same ratios."""
    rows = np.frombuffer(row_bytes, np.int64).reshape(-1, 3)
    largest = np.frombuffer(largest_bytes, np.int64)
    biases, multipliers, shifts = (rows[:, column].astype(np.int64) for column in range(3))
    biases, ratios, is_same = _with_one_result(biases, multipliers, shifts, largest, low, high)
    reach = largest + np.abs(biases)
    beyond = max(abs(low), abs(high)) + 1
    fits = (reach < EXACT) | ((reach < 1 << 31) & (ratios * EXACT > beyond))
    if not fits.all() or np.any(reach * ratios >= LARGEST_PRODUCT):
        return None
    varies = ~is_same
    chosen = ratios.copy()
    allowed = np.where(is_same, -math.inf, ratios), np.where(is_same, math.inf, ratios)
    if varies.any():
        given = multipliers[varies], shifts[varies]
        least, most = _allowed(*given, reach[varies], low, high)
        is_short = _is_short(*given)
        if np.any((least > most) & ~is_short):
            return None
        chosen[varies] = np.where(is_short, ratios[varies], (least + most) / 2)
        for end, found in zip(allowed, (least, most), strict=True):
            end[varies] = np.where(is_short, ratios[varies], found)
    first = chosen.astype(np.float32)
    second = (chosen - first).astype(np.float32)
    if np.all((allowed[0] <= first) & (first <= allowed[1])):
        second = np.zeros_like(first)
    return SplitRatios(biases.astype(np.int32), first, second)


def _with_one_result(
    biases: Array, multipliers: Array, shifts: Array, largest: Array, low: int, high: int
) -> tuple[Array, Reals, Array]:
    """Biases and ratios, and which rows have the same result for all sums, such as channels that
    training has switched off: these get biases that are small and give it, too."""
    ratios = np.ldexp(multipliers.astype(np.float64), -shifts)
    ends = [np.rint((biases + sign * largest) * ratios).clip(low, high) for sign in (-1, 1)]
    is_same = (ends[0] == ends[1]) | (multipliers <= 0)
    bias = EXACT - 1 - largest
    ratio = np.divide(ends[0], bias, out=np.zeros(len(ratios)), where=bias > 0)
    is_same &= (np.abs(ratio) * largest < 0.25) & ((bias > 0) | (ends[0] == np.clip(0, low, high)))
    return np.where(is_same, bias, biases), np.where(is_same, ratio, ratios), is_same


def _is_short(multipliers: Array, shifts: Array) -> Array:
    """Ratios whose products have so few bits that all of them, and ties, are exact in float32."""
    trailing = np.log2(multipliers & -multipliers).astype(np.int64)
    bits = np.floor(np.log2(multipliers)).astype(np.int64) + 1 - trailing
    return np.asarray((bits <= 24) & (shifts - trailing <= 24))


def _allowed(
    multipliers: Array, shifts: Array, reach: Array, low: int, high: int
) -> tuple[Reals, Reals]:
    """The least and the largest ratio that all ties allow, near to the given one."""
    ratios = np.ldexp(multipliers.astype(np.float64), -shifts)[:, None]
    ties = np.arange(low + 1, high + 1, dtype=np.float64) - 0.5
    behind = _first_behind(multipliers, shifts, ties, ratios)
    limit = reach.astype(np.float64)[:, None]
    before = np.minimum(behind - 1, limit)
    passes, stays = behind <= limit, before >= -limit
    behind = np.maximum(behind, -limit)
    above, below = (np.broadcast_to(ties + sign * MARGIN, behind.shape) for sign in (1, -1))
    least = np.concatenate(
        [
            _bounds(above, behind, passes & (behind > 0), -math.inf),
            _bounds(below, before, stays & (before < 0), -math.inf),
            ratios * (1 - NEARLY),
        ],
        axis=1,
    )
    most = np.concatenate(
        [
            _bounds(below, before, stays & (before > 0), math.inf),
            _bounds(above, behind, passes & (behind < 0), math.inf),
            ratios * (1 + NEARLY),
        ],
        axis=1,
    )
    return least.max(axis=1), most.min(axis=1)


def _bounds(products: Reals, sums: Reals, counts: Array, otherwise: float) -> Reals:
    """``products / sums`` where it counts."""
    result: Reals = np.divide(products, sums, out=np.full(sums.shape, otherwise), where=counts)
    return result


def _first_behind(multipliers: Array, shifts: Array, ties: Reals, ratios: Reals) -> Reals:
    """The smallest sum whose product is rounded to the integer behind each tie."""
    quotients = ties / ratios
    found = np.ceil(quotients)
    near = np.abs(quotients - np.rint(quotients)) < NEARLY
    for row, column in zip(*np.nonzero(near), strict=True):
        # Twice the tie, and twice the product without its shift.
        odd, factor = int(2 * ties[column]), 2 * int(multipliers[row])
        whole, rest = divmod(odd << int(shifts[row]), factor)
        to_odd = (odd + 1) // 2 % 2  # halves go to the even integer
        found[row, column] = whole + (1 if rest or to_odd else 0)
    return np.asarray(found)
