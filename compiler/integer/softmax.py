"""Softmax of integers, composed of ALU operations.

``softmax(x)[i] = exp(s * x[i]) / sum(exp(s * x[k]))`` of int8 or int16 values with scale s, and a
result of 8 bits. For each row::

    d = x - max(x)                                   MAX, MAX_LANES, SUB
    e = exp_table[clamp(round(d * s / step) + 255)]  LOOKUP; 15 bits, 32767 where d = 0
    S = sum(e)                                       ADD, SUM_LANES
    n = leading zeros of S in `bits` bits            LOOKUP, ADD
    r = reciprocal_table[S << n] >> (bits - 16 - n)  SHR_EVEN, LOOKUP, ADD, SHR_EVEN
    y = requantize(e * r)                            MUL, REQUANTIZE

S is at least 32767, because the largest element has that entry, so ``r = 32767 * 2**15 / S`` has 16
bits, and ``e * r = p * 32767 * 2**15`` for a probability p stays below 2**31.

The first entry of the exponents' table is 0: padding has the index 0. Let K be the number of
elements, and ``range = s * 255`` or ``s * 65535`` the largest difference of two exponents. The
``step`` is ``max(s, ln(64 * K) / 255)``, so that exponents below ``-ln(64 * K)`` count as minus
infinity, or ``range / 254`` if all exponents are larger than that.

Error.

- An exponent is rounded to a multiple of the step, or is exact if the step is s. With the error of
  the multiplier, an entry is wrong by a factor of at most ``1 + h``, where ``h = exp(0.502 * step)
  - 1`` (``exp(0.002 * step) - 1`` if the step is s), and by at most ``a = 2**-16``, as it is
  rounded, or ``2**-16 + exp(-254.5 * step)`` if small exponents count as minus infinity. By the
  sum's errors and its own, p changes by at most
  ``(2 * h * p * (1 - p) + a * (1 + K * p)) / (1 - h - K * a)``.
- The reciprocal's table has steps of 1/255 of its lowest argument, so r is wrong by at most the
  factor ``1 + 1/510 + 2**-14``, and by 1/2 as it is shifted: p changes by at most
  ``p * (1/510 + 2**-14) + 2**-16``.

Both over the result's scale, and 1/2 for rounding, bound the result's error in its own units;
`error_bound` is their sum.

Source: the split into maximum, exponent and reciprocal is that of I-BERT (arXiv:2101.01321).
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from daedal.compiler.integer.row_functions import (
    BIT_TABLE,
    ENTRY_LIMIT,
    Step,
    Table,
    affine_step,
    bit_steps,
    look_up,
    minus_leading_zeros,
    multiply,
    shift_right_by,
)
from daedal.isa.numerics import IntArray, quantize_multiplier, requantize
from daedal.isa.scratchpad import TABLE_ENTRIES

__all__ = ["EXP_ZERO_POINT", "MASK_FACTOR", "MAX_KEYS", "Softmax", "error_bound", "softmax"]

MAX_KEYS = (1 << 16) - 1
"""Elements of a row: their entries' sum stays below 2**31."""

EXP_ZERO_POINT = TABLE_ENTRIES // 2 - 1
"""Zero point of the index into `Softmax.exp`: the largest element has the last entry."""

MASK_FACTOR = 1 << 16
"""A mask of -128 times this is far below all elements: their exponentials are 0."""

_LAST = TABLE_ENTRIES - 1
_RANGE = 64
"""An element of less than 1 / (this * K) of the largest one counts as 0."""


@dataclass(frozen=True)
class Softmax:
    """Constants of a softmax.

    Parameters
    ----------
    exp, bits, reciprocal : tables.
    index : the step of the index into `exp`.
    bit_steps : steps of `bits`.
    mantissa : the step of the index into `reciprocal`.
    sum_bits : bits that hold every sum.
    """

    exp: Table
    bits: Table
    reciprocal: Table
    index: Step
    bit_steps: tuple[Step, ...]
    mantissa: Step
    sum_bits: int

    @classmethod
    def of(cls, keys: int, scale: float, bits: int, multiplier_bits: int) -> "Softmax":
        """For rows of `keys` elements of `bits` bits (8 or 16) with `scale`.

        Raises ValueError for more than `MAX_KEYS`, or a scale that is not positive.
        """
        if not 1 <= keys <= MAX_KEYS:
            raise ValueError(f"a softmax must have 1 to {MAX_KEYS} elements in a row, not {keys}")
        if not (math.isfinite(scale) and scale > 0):
            raise ValueError(f"the scale of a softmax's operand must be positive, not {scale!r}")
        step, _ = _step(keys, scale, bits)
        exponents = (np.arange(TABLE_ENTRIES) - _LAST) * step
        exp = np.rint(ENTRY_LIMIT * np.exp(exponents)).astype(np.int16)
        exp[0] = 0
        sum_bits = max(23, (keys * ENTRY_LIMIT).bit_length())
        low = 1 << (sum_bits - 1)
        mantissas = 1 + np.arange(TABLE_ENTRIES) / _LAST
        return cls(
            exp,
            BIT_TABLE,
            np.rint(ENTRY_LIMIT / mantissas).astype(np.int16),
            (0, *quantize_multiplier(scale / step, multiplier_bits)),
            bit_steps(sum_bits, ENTRY_LIMIT),
            affine_step(low, 2 * low, multiplier_bits),
            sum_bits,
        )

    @staticmethod
    def result_ratio(scale: float) -> float:
        """What the product ``e * r`` is multiplied by for a result with `scale`."""
        return 1 / (scale * ENTRY_LIMIT * (1 << 15))


def softmax(
    x: IntArray, constants: Softmax, params: npt.ArrayLike, zero_point: int, low: int, high: int
) -> IntArray:
    """Softmax over the first axis.

    Parameters
    ----------
    x : (K, ...) integers of at most 16 bits, or where they do not count, with -128 *
        `MASK_FACTOR` added.
    params : (3,), the result's bias, multiplier and shift.
    """
    d = x.astype(np.int64) - x.max(axis=0, keepdims=True)
    e = look_up(d, constants.index, constants.exp, EXP_ZERO_POINT)
    total = e.sum(axis=0, keepdims=True)
    zeros = minus_leading_zeros(total, constants.bit_steps, constants.bits)
    r = look_up(shift_right_by(total, zeros), constants.mantissa, constants.reciprocal)
    r = shift_right_by(r, zeros + (constants.sum_bits - 16))
    bias, multiplier, shift = np.asarray(params, dtype=np.int64)
    return requantize(multiply(e, r), bias, multiplier, shift, zero_point, low, high)


def error_bound(
    p: npt.ArrayLike, keys: int, scale: float, bits: int, result_scale: float
) -> npt.NDArray[np.float64]:
    """Largest difference of a result from ``p / result_scale + zero_point``, for probabilities
    `p`."""
    real = np.asarray(p, dtype=np.float64)
    step, cut = _step(keys, scale, bits)
    h = math.expm1((0.002 if step == scale else 0.502) * step)
    a = 2**-16 + (math.exp(-254.5 * step) if cut else 0)
    exponents = (2 * h * real * (1 - real) + a * (1 + keys * real)) / (1 - h - keys * a)
    reciprocal = real * (1 / 510 + 2**-14) + 2**-16
    return np.asarray(0.5 + (exponents + reciprocal) / result_scale)


def _step(keys: int, scale: float, bits: int) -> tuple[float, bool]:
    """Difference of two neighbouring entries' exponents, and whether there may be exponents below
    those of the table."""
    needed, largest = math.log(_RANGE * keys), scale * ((1 << bits) - 1)
    if largest < needed:
        return largest / (_LAST - 1), False
    return max(scale, needed / _LAST), True
