"""Functions of accumulator rows that softmax and the norms share, composed of ALU operations.

An operation here is one of the ALU, so a kernel repeats these functions step by step. A `Step` is
the parameters of a REQUANTIZE or LOOKUP; a table has its 256 entries in the order of the results
-128, ..., 127.
"""

from bisect import bisect_left
from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from daedal.isa.lane import NumpyLane
from daedal.isa.numerics import IntArray, quantize_multiplier, requantize
from daedal.isa.scratchpad import TABLE_ENTRIES

__all__ = [
    "BIT_TABLE",
    "ENTRY_LIMIT",
    "INDEX_ZERO_POINT",
    "Step",
    "Table",
    "affine_step",
    "bit_steps",
    "count_above",
    "half_thresholds",
    "look_up",
    "minus_leading_zeros",
    "multiply",
    "requantize_wide",
    "shift_right_by",
]

Table = npt.NDArray[np.int16]
Step = tuple[int, int, int]
"""Bias, multiplier and shift."""

_ACCUMULATOR_BITS = 32
_BYTE_BITS = 8

ENTRY_LIMIT = (1 << 15) - 1
"""Largest entry of a table."""

INDEX_ZERO_POINT = -TABLE_ENTRIES // 2
"""Zero point of a LOOKUP whose index counts from 0."""

_MULTIPLIER = (1 << 16) + 1
"""A little more than 2**16, so that a multiple of a power of two is rounded up."""

BIT_TABLE: Table = np.array(
    [number.bit_length() - _BYTE_BITS for number in range(TABLE_ENTRIES)], dtype=np.int16
)
"""Minus the leading zeros of a byte."""


def affine_step(low: int, high: int, multiplier_bits: int) -> Step:
    """Maps ``low..high`` to ``0..255``, before the zero point."""
    multiplier, shift = quantize_multiplier((TABLE_ENTRIES - 1) / (high - low), multiplier_bits)
    return -low, multiplier, shift


def bit_steps(bits: int, least: int) -> tuple[Step, ...]:
    """Steps of `minus_leading_zeros` for values of at most `bits` bits, `least` or larger.

    Each takes the value without its low bits, rounded down; this saturates where the value has
    more than 8 bits then. Rounding is exact up to a relative error of the value of 2**-16.
    """
    steps: list[Step] = []
    low = bits
    while not steps or least + 1 < 1 << max(low, 0):
        low -= _BYTE_BITS
        if low > 0:
            steps.append((-(1 << (low - 1)), _MULTIPLIER, low + 16))
        else:
            steps.append((0, 1 << -low, 0))
    return tuple(steps)


def minus_leading_zeros(x: IntArray, steps: Sequence[Step], table: Table) -> IntArray:
    """Minus the number of zeros above the highest one of `x`: LOOKUP for each step, and ADD.

    Source: a byte above that with the highest one gives 8, one below it saturates and gives 0.
    """
    found = look_up(x, steps[0], table)
    for step in steps[1:]:
        found = found + look_up(x, step, table)
    return found


@cache
def half_thresholds(bits: int) -> tuple[int, ...]:
    """As many of them are above x as half of x's leading zeros in `bits` bits, rounded up; x > 0.

    They are ``2, 2**3, 2**5, ...`` for an even number of bits, or less by up to 2**-16 of them: x
    that `minus_leading_zeros` rounds up to such a power counts as the power here, too.
    """
    steps = bit_steps(bits, 1)

    def half(x: int) -> int:
        return int(minus_leading_zeros(np.array(x), steps, BIT_TABLE)) >> 1

    numbers = range(1, 1 << bits)
    return tuple(numbers[bisect_left(numbers, k, key=half)] for k in range(half(1) + 1, 1))


def count_above(x: IntArray, thresholds: Sequence[int]) -> IntArray:
    """Minus the number of `thresholds` above `x`: REQUANTIZE in a lane for each, and SUM_LANES."""
    count = np.zeros_like(x)
    for threshold in thresholds:
        count = count + requantize(x, -threshold, 1, 0, 0, -1, 0)
    return count


def look_up(x: IntArray, step: Step, table: Table, zero_point: int = INDEX_ZERO_POINT) -> IntArray:
    """LOOKUP into the accumulators."""
    low, high = -TABLE_ENTRIES // 2, TABLE_ENTRIES // 2 - 1
    index = requantize(x, *step, zero_point, low, high)
    return table[index - low].astype(np.int64)


def requantize_wide(x: IntArray, step: Step) -> IntArray:
    """REQUANTIZE to 16 bits, without a zero point."""
    return requantize(x, *step, 0, -(1 << 15), (1 << 15) - 1)


def multiply(x: IntArray, y: npt.ArrayLike) -> IntArray:
    """MUL: the low 18 bits of both operands."""
    return NumpyLane(x, np.asarray(y, dtype=np.int64), _ACCUMULATOR_BITS).product()


def shift_right_by(x: IntArray, amount: npt.ArrayLike) -> IntArray:
    """SHR_EVEN; a negative amount shifts left."""
    return NumpyLane(x, np.asarray(amount, dtype=np.int64), _ACCUMULATOR_BITS).right_even()
