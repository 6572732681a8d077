"""Layer norm and RMS norm of integers, composed of ALU operations.

``y = g * (x - m) / sqrt(mean((x - m)**2) + epsilon) + b`` over C channels, where m is the mean, or
for an RMS norm the zero point. For each row, in units of ``2**-fraction_bits`` of x's::

    d = (x << fraction_bits) - m                   SHL, ADD, SUM_LANES, REQUANTIZE to 16 bits, SUB
    V = sum((d >> square_shift)**2)                SHR_EVEN, MUL, ADD, SUM_LANES
    W = V + epsilon, below 2**30                   ADD
    k = half the leading zeros of W in 30 bits     REQUANTIZE, SUM_LANES; rounded up
    r = table(W << 2k)                             SHL, SHR_EVEN, LOOKUP, LOOKUP, ADD
    D = d >> (square_shift + spare_shift - k)      ADD, SHR_EVEN
    y = requantize(D * r + bias)                   MUL, REQUANTIZE; per channel

All lanes hold W; for k, each compares it with a threshold of its own (`half_thresholds`).

``r = rising * sqrt(2**29 / (W << 2k))`` comes from two tables, one for each half of its range; each
saturates in the other's half, where it contributes a constant. ``D * r`` is
``unit * (x - m) / sigma`` with ``unit = rising * 2**(14.5 - spare_shift) / sqrt(C)``. As no
deviation is larger than ``sqrt(C) * sigma``, it stays below 2**31.

The bias is ``b * unit / g`` and has to fit 32 bits. Where it does not, the unit is reduced: up to
5 bits of r, then up to 5 of D. A channel whose g is still too small gets the smallest possible
one, which contributes less than half a unit of the result. A negative g is a negative sign of
its channel's d (MUL).

Error. Let sigma be the real row's, epsilon included, in units of d, and z = (x - m) / sigma.

- The mean is rounded: ``delta = 0.5 + 2**-16 * |m|`` units. It adds ``delta / sigma`` to z and,
  because deviations from the mean have the sum 0, changes sigma by a factor of at most
  ``1 + (delta / sigma)**2 / 2``. An RMS norm has ``delta = 0``.
- Squares are of rounded numbers: V is wrong by at most ``sqrt(C * V) + C / 4``, or 0 if
  square_shift is 0, and epsilon by 1. Sigma is wrong by half of their part in W.
- The tables' arguments are wrong by at most 1/510 of themselves, r by 1/1020 for that, by
  ``2**-15`` for the multiplier of the index, and by 1/2 for its rounding, of at least
  ``rising / 2``.
- D is rounded by 1/2, and sigma is at least ``2**(14.5 - spare_shift) / sqrt(C)`` in its units.
- g is multiplied by ``1 + 2**-16``.

`error_bound` is their sum in units of the result, with 1/2 for rounding; second-order terms are
covered by a tenth.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from daedal.compiler.integer.row_functions import (
    Step,
    Table,
    affine_step,
    count_above,
    half_thresholds,
    look_up,
    multiply,
    requantize_wide,
    shift_right_by,
)
from daedal.isa.numerics import IntArray, quantize_multiplier, requantize
from daedal.isa.scratchpad import TABLE_ENTRIES

__all__ = ["MAX_CHANNELS", "Norm", "NormParameters", "error_bound", "norm"]

MAX_CHANNELS = 1 << 14
"""Channels of a row: their sum has 31 bits."""

_LAST = TABLE_ENTRIES - 1
_SUM_BITS = 30
_LOW = 1 << 29
_EPSILON_LIMIT = 1 << 17
_TABLE_BITS = 15
_SPARE_BITS = 5
_BIAS_LIMIT = (1 << 31) - 1


@dataclass(frozen=True)
class Norm:
    """Constants of a norm.

    Parameters
    ----------
    channels : of a row.
    centred : whether the mean is subtracted.
    zero_point : of x, for an RMS norm.
    fraction_bits, square_shift, spare_shift, epsilon : see above.
    low, high : tables.
    mean : the step from the sum to the mean.
    thresholds : as many are above W as its k; those up to epsilon never are.
    mantissas : the steps of the indices into `low` and `high`.
    """

    channels: int
    centred: bool
    zero_point: int
    fraction_bits: int
    square_shift: int
    spare_shift: int
    epsilon: int
    low: Table
    high: Table
    mean: Step
    thresholds: tuple[int, ...]
    mantissas: tuple[Step, Step]


@dataclass(frozen=True)
class NormParameters:
    """A norm with its gain and bias.

    Parameters
    ----------
    constants : of the norm.
    signs : (C,) int8, -1 where the gain is negative.
    params : (C, 3) int64, the result's bias, multiplier and shift.
    """

    constants: Norm
    signs: npt.NDArray[np.int8]
    params: IntArray

    @classmethod
    def of(
        cls,
        gain: npt.ArrayLike,
        bias: npt.ArrayLike,
        *,
        epsilon: float,
        scale: float,
        zero_point: int,
        bits: int,
        result_scale: float,
        multiplier_bits: int,
        centred: bool,
    ) -> "NormParameters":
        """For x of `bits` bits (8 or 16) with `scale` and `zero_point`.

        Parameters
        ----------
        gain, bias : (C,) float.

        Raises
        ------
        ValueError
            More than `MAX_CHANNELS`, or a number that is not finite or out of range.
        """
        g, b = (np.asarray(item, dtype=np.float64) for item in (gain, bias))
        _check(g, b, epsilon, scale, result_scale)
        size = np.abs(g)
        needed = np.max(np.abs(b) / np.maximum(size, np.abs(b) * 2.0**-40 + 1e-300))
        spare = 0
        while spare < 2 * _SPARE_BITS and needed * _unit(g.size, spare) > _BIAS_LIMIT:
            spare += 1
        unit = _unit(g.size, spare)
        size = np.maximum(size, np.abs(b) * unit / _BIAS_LIMIT)
        with np.errstate(invalid="ignore", divide="ignore"):
            biases = np.where(size > 0, np.rint(np.abs(b) * unit / size), 0)
        rows = [
            (int(np.copysign(steps, real)), *quantize_multiplier(ratio, multiplier_bits))
            for steps, real, ratio in zip(biases, b, size / (unit * result_scale), strict=True)
        ]
        constants = _constants(
            g.size, epsilon, scale, zero_point, bits, spare, multiplier_bits, centred
        )
        signs = np.where(g < 0, -1, 1).astype(np.int8)
        return cls(constants, signs, np.array(rows, dtype=np.int64))


def norm(
    x: IntArray,
    constants: Norm,
    signs: IntArray | None,
    params: IntArray,
    zero_point: int,
    low: int,
    high: int,
) -> IntArray:
    """The norm over the first axis.

    Parameters
    ----------
    x : (C, ...) integers of at most 16 bits.
    signs : (C, ...), 0 where x does not count; None if all are 1.
    params : (C, 3).
    """

    def per_channel(values: IntArray) -> IntArray:
        return values.reshape(-1, *[1] * (x.ndim - 1))

    d = x.astype(np.int64)
    if not constants.centred:
        d = d - constants.zero_point
    d = d << constants.fraction_bits
    if constants.centred:
        if signs is not None:
            d = multiply(d, np.square(signs.astype(np.int64)))
        d = d - requantize_wide(d.sum(axis=0, keepdims=True), constants.mean)
    if signs is not None:
        d = multiply(d, signs)
    rounded = shift_right_by(d, constants.square_shift)
    total = multiply(rounded, rounded).sum(axis=0, keepdims=True) + constants.epsilon
    half = count_above(total, constants.thresholds)
    mantissa = shift_right_by(total, half << 1)
    r = look_up(mantissa, constants.mantissas[0], constants.low)
    r = r + look_up(mantissa, constants.mantissas[1], constants.high)
    d = shift_right_by(d, half + (constants.square_shift + constants.spare_shift))
    biases, multipliers, shifts = (per_channel(column) for column in params.T)
    return requantize(multiply(d, r), biases, multipliers, shifts, zero_point, low, high)


def error_bound(
    x: IntArray,
    constants: Norm,
    gain: npt.ArrayLike,
    epsilon: float,
    scale: float,
    result_scale: float,
) -> npt.NDArray[np.float64]:
    """Largest difference of a result from the real one over `result_scale`, for x (C, ...)."""
    c, a = constants.channels, constants.square_shift
    one = 1 << constants.fraction_bits
    reals = x.astype(np.float64) * one
    mean = reals.mean(axis=0) if constants.centred else np.float64(constants.zero_point * one)
    delta = (0.5 + 2**-16 * np.abs(mean)) if constants.centred else np.float64(0)
    variance = ((reals - mean) ** 2).mean(axis=0)
    sigma = np.sqrt(variance + epsilon * (one / scale) ** 2)
    z = np.abs(reals - mean) / sigma
    w = c * sigma**2 / 4**a
    v = c * variance / 4**a
    squares = np.where(a > 0, np.sqrt(c * v) + c / 4, 0) + 1
    rising = _rising(constants)
    relative = squares / (2 * w) + (delta / sigma) ** 2 / 2
    relative = relative + 1 / 1020 + 2**-15 + 1 / rising + 2**-16
    absolute = delta / sigma + 0.5 * math.sqrt(c) * 2 ** (constants.spare_shift - 14.5)
    sizes = np.abs(np.asarray(gain, dtype=np.float64)).reshape(-1, *[1] * (x.ndim - 1))
    return np.asarray(0.5 + 1.1 * sizes / result_scale * (z * relative + absolute))


def _constants(
    channels: int,
    epsilon: float,
    scale: float,
    zero_point: int,
    bits: int,
    spare: int,
    multiplier_bits: int,
    centred: bool,
) -> Norm:
    fraction = 16 - bits
    # The variance of numbers of a range is at most a quarter of its square.
    largest = ((1 << 16) - 1) / 2 + 1 if centred else (1 << (15 if bits == 16 else 16))
    real = channels * epsilon * (float(1 << fraction) / scale) ** 2
    shift = 0
    while True:
        added = max(1, round(real / 4.0**shift))
        most = channels * (largest / 2.0**shift + 0.5) ** 2
        if added < _EPSILON_LIMIT and most + added < 1 << _SUM_BITS:
            break
        shift += 1
    bits_of_r = min(spare, _SPARE_BITS)
    low, high = _tables((1 << (_TABLE_BITS - bits_of_r)) - 1)
    return Norm(
        channels,
        centred,
        zero_point,
        fraction,
        shift,
        spare - bits_of_r,
        added,
        low,
        high,
        (0, *quantize_multiplier(1 / channels, multiplier_bits)),
        tuple(item for item in half_thresholds(_SUM_BITS) if item > added),
        (
            affine_step(_LOW, 2 * _LOW, multiplier_bits),
            affine_step(2 * _LOW, 4 * _LOW, multiplier_bits),
        ),
    )


def _tables(rising: int) -> tuple[Table, Table]:
    """The function less its value in the middle, and the function from there on."""
    fractions = np.arange(TABLE_ENTRIES) / _LAST
    low = np.rint(rising / np.sqrt(1 + fractions))
    high = np.rint(rising / np.sqrt(2 + 2 * fractions))
    return (low - high[0]).astype(np.int16), high.astype(np.int16)


def _rising(constants: Norm) -> int:
    """The largest r."""
    return int(constants.low[0]) + int(constants.high[0])


def _unit(channels: int, spare: int) -> float:
    """What ``D * r`` is for one standard deviation."""
    bits = min(spare, _SPARE_BITS)
    rising = (1 << (_TABLE_BITS - bits)) - 1
    return float(rising * 2.0 ** (14.5 - (spare - bits)) / math.sqrt(channels))


def _check(
    gain: npt.NDArray[np.float64],
    bias: npt.NDArray[np.float64],
    epsilon: float,
    scale: float,
    result_scale: float,
) -> None:
    if not 1 <= gain.size <= MAX_CHANNELS:
        raise ValueError(f"a norm must have 1 to {MAX_CHANNELS} channels, not {gain.size}")
    if not (np.isfinite(gain).all() and np.isfinite(bias).all()):
        raise ValueError("gain and bias of a norm must be finite")
    if not (math.isfinite(epsilon) and epsilon >= 0):
        raise ValueError(f"epsilon of a norm must be 0 or more, not {epsilon!r}")
    for what, value in (("operand", scale), ("result", result_scale)):
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"the scale of a norm's {what} must be positive, not {value!r}")
