"""Attention of integers, composed of ALU operations: weights of scores, and means by these weights.

``y[c] = sum over k of p[k] * v[k, c]`` with ``p = softmax(s * x)``, in two steps. The scores x are
accumulators: products with scale s, to which a mask may have been added: a multiple of `HIDDEN`
that hides scores, or a bias of its own for each (`mask_of_biases`). The *weights* are the
numerators of softmax; the *mean* divides by their sum. For each query::

    d = x - max(x)                                          MAX, MAX_LANES, SUB
    e = exp_table[clamp(round(d * s / step) + 127)]         LOOKUP; 127 where d = 0

    S = sum(e);  X = sum(e * v)                             products
    n = leading zeros of S in `sum_bits` bits               LOOKUP, ADD
    r = reciprocal_table[S << n]                            SHR_EVEN, LOOKUP
    Z = X >> (sum_bits - 9 - n)                             ADD, SHR_EVEN
    y = requantize(Z * r)                                   MUL, REQUANTIZE

S is at least 127, because the largest score has that weight. With ``S << n`` shifted as X is, Z is
at most 128 * 2**9, and ``Z * r = X / S * 32767 * 2**8`` stays below 2**31. Unlike probabilities,
weights have the same precision for any number of keys.

Error.

- The table's first entry is 0 and stands for all lower exponents, whose weights are less than 1/2.
  A weight is wrong by at most the factor ``1 + h``, ``h = exp(0.502 * step) - 1``, and by 1/2 as it
  is rounded. So, with weights w = 127 * p / max(p), the mean is wrong by at most
  ``sum((h * w + 1/2) * |v - y|) / (sum(w) * (1 - h) - K / 2)``, if that is positive.
- The reciprocal's table has steps of 1/255 of its lowest argument, so r is wrong by at most the
  factor ``1 + 1/510 + 2**-14``, and Z by 1/2 of at least 2**8: together ``|y| * (1/510 + 2**-14) +
  2**-9`` steps of v.
- Biases are rounded to integers: ``h = exp(0.502 * step + s / 2) - 1``.

`error_bound` is their sum in units of the result, with 1/2 for rounding.

Source: weights of 8 bits whose sum divides the product are those of ITA (arXiv:2307.03493).
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

__all__ = [
    "FACTOR_LIMIT",
    "FILLER",
    "HIDDEN",
    "INDEX_BOUNDS",
    "LARGEST_WEIGHT",
    "MAX_KEYS",
    "MeanConstants",
    "attention_weights",
    "error_bound",
    "hiding_factor",
    "index_step",
    "mask_of_biases",
    "mean_shift",
    "result_unit",
    "weight_step",
    "weight_table",
    "weighted_mean",
]

LARGEST_WEIGHT = 127

MAX_KEYS = 1 << 16
"""Of a query: sums of products of weights and values stay below 2**31."""

INDEX_BOUNDS = (TABLE_ENTRIES // 2 - 1, -TABLE_ENTRIES // 2, TABLE_ENTRIES // 2 - 1)
"""Zero point and bounds of the index into the table of weights: the largest score has the last
entry."""

HIDDEN, FILLER = -64, -128
"""In a mask, what hides a score, and what hides a key that only fills a block: that has no weight
even where all others are hidden."""

_LAST = TABLE_ENTRIES - 1
_LOWEST = math.log(2 * LARGEST_WEIGHT)
"""Exponents below minus this have a weight of 0."""

_MEAN_BITS = 9
_SUM_BITS = 15
"""At least: one LOOKUP counts the leading zeros of sums of 127 and more."""

FACTOR_LIMIT = (1 << 17) - 1
"""The largest number that MUL multiplies a mask by."""


def weight_step(scale: float) -> float:
    """Difference of the exponents of two neighbouring entries, for scores with `scale`.

    Raises ValueError for a scale that is not positive.
    """
    if not (math.isfinite(scale) and scale > 0):
        raise ValueError(f"the scale of scores must be positive, not {scale!r}")
    return max(scale, _LOWEST / (_LAST - 1))


def index_step(scale: float, multiplier_bits: int) -> Step:
    """The step of the index into the table of weights."""
    return (0, *quantize_multiplier(scale / weight_step(scale), multiplier_bits))


def weight_table(scale: float) -> npt.NDArray[np.int8]:
    """The weights (256,) of the indices -128, ..., 127."""
    exponents = (np.arange(TABLE_ENTRIES) - _LAST) * weight_step(scale)
    table: npt.NDArray[np.int8] = np.rint(LARGEST_WEIGHT * np.exp(exponents)).astype(np.int8)
    table[0] = 0
    return table


def hiding_factor(scale: float, largest: int) -> int | None:
    """What a mask is multiplied by, so that `HIDDEN` scores have a weight of 0 where one is not
    hidden, and so that `FILLER` leads to lower ones; None if MUL cannot do it.

    Parameters
    ----------
    scale : of the scores.
    largest : absolute value of scores that may occur.
    """
    needed = 2 * largest + (_LAST + 1) * weight_step(scale) / scale
    factor = math.ceil(needed / -HIDDEN)
    return factor if factor <= FACTOR_LIMIT else None


def mask_of_biases(
    biases: npt.ArrayLike, scale: float, largest: int
) -> tuple[npt.NDArray[np.int32], int] | None:
    """What is added to scores instead of `biases`, and what is added to keys that only fill a
    block; None if sums could leave 32 bits, or a bias is infinite or no number.

    The largest bias of each query becomes 0, which changes no probability. Lower ones than any
    weight needs are raised to where it is 0, so that infinite ones have integers, too.

    Parameters
    ----------
    biases : (..., keys), real numbers; -infinity hides a key.
    scale : of the scores.
    largest : absolute value of scores that may occur.
    """
    lowest = -(2 * largest + math.ceil((_LAST + 1) * weight_step(scale) / scale))
    if largest - lowest >= 1 << 31:
        return None
    real = np.maximum(np.asarray(biases, dtype=np.float64), np.finfo(np.float32).min)
    if not np.isfinite(real).all():
        return None
    below = (real - real.max(axis=-1, keepdims=True)) / scale
    return np.rint(np.maximum(below, lowest)).astype(np.int32), lowest


def attention_weights(
    scores: IntArray, step: Step, table: npt.NDArray[np.int8]
) -> npt.NDArray[np.int8]:
    """The weights of `scores` (K, ...), with the mask added, over the first axis.

    `step` is the bias, multiplier and shift of the index into `table`.
    """
    distance = scores - scores.max(axis=0, keepdims=True)
    index = requantize(distance, *step, *INDEX_BOUNDS)
    return np.asarray(table[index + TABLE_ENTRIES // 2])


@dataclass(frozen=True)
class MeanConstants:
    """Constants of a weighted mean.

    Parameters
    ----------
    bits, reciprocal : tables.
    bit_steps, mantissa : the steps of the indices into them.
    sum_bits : bits of the sum of weights.
    """

    bits: Table
    reciprocal: Table
    bit_steps: tuple[Step, ...]
    mantissa: Step
    sum_bits: int

    @classmethod
    def of(cls, keys: int, multiplier_bits: int) -> "MeanConstants":
        """For queries with `keys` keys. Raises ValueError for more than `MAX_KEYS`."""
        if not 1 <= keys <= MAX_KEYS:
            raise ValueError(f"a query must have 1 to {MAX_KEYS} keys, not {keys}")
        sum_bits = max(_SUM_BITS, (keys * LARGEST_WEIGHT).bit_length())
        low = 1 << (sum_bits - 1)
        mantissas = 1 + np.arange(TABLE_ENTRIES) / _LAST
        return cls(
            BIT_TABLE,
            np.rint(ENTRY_LIMIT / mantissas).astype(np.int16),
            bit_steps(sum_bits, LARGEST_WEIGHT),
            affine_step(low, 2 * low, multiplier_bits),
            sum_bits,
        )


def mean_shift(sum_bits: int) -> int:
    """What X is shifted right by where S has no leading zeros in `sum_bits`."""
    return sum_bits - _MEAN_BITS


def result_unit() -> int:
    """What ``Z * r`` is for a mean of 1."""
    return ENTRY_LIMIT << (_MEAN_BITS - 1)


def weighted_mean(
    products: IntArray,
    total: IntArray,
    constants: MeanConstants,
    params: npt.ArrayLike,
    zero_point: int,
    low: int,
    high: int,
) -> IntArray:
    """Means (C, ...) of the sums of `products` (C, ...) by the sums of weights `total` (1, ...).

    `params` (3,) are the result's bias, multiplier and shift.
    """
    zeros = minus_leading_zeros(total, constants.bit_steps, constants.bits)
    mantissa = shift_right_by(total, zeros)
    inverse = look_up(mantissa, constants.mantissa, constants.reciprocal)
    shifted = shift_right_by(products, zeros + mean_shift(constants.sum_bits))
    mean = multiply(shifted, inverse)
    bias, multiplier, shift = np.asarray(params, dtype=np.int64)
    return requantize(mean, bias, multiplier, shift, zero_point, low, high)


def error_bound(
    p: npt.ArrayLike,
    values: npt.ArrayLike,
    scale: float,
    value_scale: float,
    result_scale: float,
    zero_point: int = 0,
    *,
    biased: bool = False,
) -> npt.NDArray[np.float64]:
    """Largest difference of a result (C,) from the real one over `result_scale`.

    Parameters
    ----------
    p : (K,) probabilities of the keys.
    values : (K, C) integers with `value_scale` and `zero_point`.
    scale : of the scores.
    biased : whether the mask is one of `mask_of_biases`.
    """
    weights = np.asarray(p, dtype=np.float64)
    v = np.asarray(values, dtype=np.float64)
    mean = weights @ v
    w = LARGEST_WEIGHT * weights / weights.max()
    h = math.expm1(0.502 * weight_step(scale) + (scale / 2 if biased else 0.0))
    lowest = w.sum() * (1 - h) - len(w) / 2
    moved = ((h * w + 0.5)[:, None] * np.abs(v - mean)).sum(axis=0)
    from_weights = moved / lowest if lowest > 0 else np.full(v.shape[1], np.inf)
    from_weights = np.minimum(from_weights, np.ptp(v, axis=0))
    largest = np.abs(mean) + from_weights
    steps = from_weights + largest * (1 / 510 + 2**-14) + 2**-9
    return np.asarray(0.5 + steps * value_scale / result_scale)
