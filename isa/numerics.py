"""Integer arithmetic of the machine, defined once: wrap, saturate, shifts, requantization.

The numpy reference, the functional simulator and the RTL are bit-identical because each of them is
this file or is checked against it. All functions take and return int64 arrays (or scalars that
numpy broadcasts); products that exceed 64 bits are split so that no step overflows.

Source: ONNX QuantizeLinear/DequantizeLinear (opset 13) for the real-number meaning; rounding is
half to even throughout.
"""

import numpy as np
import numpy.typing as npt

__all__ = [
    "IntArray",
    "dequantize",
    "integer_range",
    "quantize",
    "quantize_multiplier",
    "requantize",
    "round_half_even_shift",
    "saturate",
    "shift_left",
    "shift_right_even",
    "shift_right_floor",
    "wide_bounds",
    "wrap",
]

IntArray = npt.NDArray[np.int64]

_SPLIT_BITS = 24
"""Bits of the accumulator multiplied in the low half of `requantize`: 24 + 33 < 63."""


def integer_range(bits: int) -> tuple[int, int]:
    """Smallest and largest signed integer of `bits` bits."""
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def wrap(x: npt.ArrayLike, bits: int) -> IntArray:
    """Reduce modulo 2^bits to the signed range: what a register of `bits` bits keeps."""
    values = np.asarray(x, dtype=np.int64)
    if bits >= 64:
        return values
    mask = np.int64((1 << bits) - 1)
    sign = np.int64(1 << (bits - 1))
    return ((values & mask) ^ sign) - sign


def saturate(x: npt.ArrayLike, bits: int) -> IntArray:
    """Clamp to the signed range of `bits` bits."""
    low, high = integer_range(bits)
    return np.clip(np.asarray(x, dtype=np.int64), low, high)


def round_half_even_shift(x: npt.ArrayLike, shift: npt.ArrayLike) -> IntArray:
    """``x * 2**-shift`` rounded to the nearest integer, ties to even; `shift` is 0..63."""
    values = np.asarray(x, dtype=np.int64)
    amount = np.asarray(shift, dtype=np.int64)
    floor: IntArray = values >> amount
    # The dropped bits, left-aligned: comparing with one half needs no width beyond 64.
    left = np.where(amount > 0, 64 - amount, 0).astype(np.uint64)
    dropped = np.where(amount > 0, values.astype(np.uint64) << left, np.uint64(0))
    half = np.uint64(1 << 63)
    up = (dropped > half) | ((dropped == half) & ((floor & 1) == 1))
    return np.asarray(floor + up, dtype=np.int64)


def shift_left(x: npt.ArrayLike, amount: npt.ArrayLike, bits: int) -> IntArray:
    """``x << amount`` modulo 2^bits; an amount of `bits` or more gives 0."""
    values = np.asarray(x, dtype=np.int64)
    count = np.asarray(amount, dtype=np.int64)
    shifted = values.astype(np.uint64) << np.minimum(count, 63).astype(np.uint64)
    return wrap(np.where(count >= bits, 0, shifted.astype(np.int64)), bits)


def shift_right_floor(x: npt.ArrayLike, amount: npt.ArrayLike) -> IntArray:
    """``floor(x * 2**-amount)``; amounts are 0..63."""
    return np.asarray(x, dtype=np.int64) >> np.asarray(amount, dtype=np.int64)


def shift_right_even(x: npt.ArrayLike, amount: npt.ArrayLike) -> IntArray:
    """``x * 2**-amount`` rounded half to even; amounts are 0..63."""
    return round_half_even_shift(x, amount)


def requantize(
    acc: npt.ArrayLike,
    bias: npt.ArrayLike,
    multiplier: npt.ArrayLike,
    shift: npt.ArrayLike,
    zero_point: npt.ArrayLike,
    low: npt.ArrayLike,
    high: npt.ArrayLike,
) -> IntArray:
    """``clip(rhe((acc + bias) * multiplier * 2**-shift) + zero_point, low, high)``.

    Parameters broadcast against each other. `acc` and `bias` are signed, of at most 48 bits, and
    are added exactly; `multiplier` is unsigned, below 2**33; `shift` is 0..63.
    """
    total = np.asarray(acc, dtype=np.int64) + np.asarray(bias, dtype=np.int64)
    factor = np.asarray(multiplier, dtype=np.int64)
    amount = np.asarray(shift, dtype=np.int64)
    # total * factor = high_part * 2**24 + low_part, each below 2**63.
    low_bits = (total & ((1 << _SPLIT_BITS) - 1)) * factor
    high_part = (total >> _SPLIT_BITS) * factor + (low_bits >> _SPLIT_BITS)
    low_part = low_bits & ((1 << _SPLIT_BITS) - 1)
    rounded = _round_split(high_part, low_part, amount)
    # Bounds come after the zero point; clamp first so that the addition cannot overflow.
    limit = np.int64(1 << 40)
    shifted = np.clip(rounded, -limit, limit) + np.asarray(zero_point, dtype=np.int64)
    return np.clip(
        shifted, np.asarray(low, dtype=np.int64), np.asarray(high, dtype=np.int64)
    ).astype(np.int64)


def wide_bounds(low: int, high: int, bits: int) -> tuple[int, int]:
    """Bounds of a result of twice `bits` bits, from bounds of `bits` bits.

    They give the upper half of the result: the lower half is all zeros in the lowest result, all
    ones in the highest.
    """
    return low << bits, (high << bits) | ((1 << bits) - 1)


def _round_split(high_part: IntArray, low_part: IntArray, shift: IntArray) -> IntArray:
    """``(high_part * 2**24 + low_part) * 2**-shift``, half to even, saturating beyond 2**38."""
    small = shift <= _SPLIT_BITS
    # A shift above 24 drops the whole low part: a sticky bit distinguishes a tie from above a tie.
    with_sticky = (high_part << 1) | (low_part != 0)
    large = round_half_even_shift(with_sticky, np.where(small, 1, shift - _SPLIT_BITS + 1))
    clipped = np.clip(high_part, -(1 << 38), (1 << 38) - 1)
    exact = round_half_even_shift((clipped << _SPLIT_BITS) | low_part, np.where(small, shift, 0))
    return np.where(small, exact, large)


def quantize_multiplier(real: float, multiplier_bits: int, max_shift: int = 63) -> tuple[int, int]:
    """Best ``(m, s)`` with ``real ~ m * 2**-s``, ``0 <= m < 2**multiplier_bits``, ``0 <= s <= 63``.

    `m` keeps all its bits where the shift allows it, so the relative error is at most
    2**-multiplier_bits. Raises ValueError for a factor that is negative, not finite or too large.
    """
    if not np.isfinite(real) or real < 0:
        raise ValueError(f"a scale ratio must be finite and not negative, not {real!r}")
    if real == 0:
        return 0, 0
    mantissa, exponent = np.frexp(real)
    shift = multiplier_bits - int(exponent)
    m = round(float(mantissa) * (1 << multiplier_bits))
    if m == 1 << multiplier_bits:
        m, shift = m >> 1, shift - 1
    if shift > max_shift:
        m, shift = round(float(np.ldexp(real, max_shift))), max_shift
    if shift < 0:
        raise ValueError(f"a scale ratio must be below 2**{multiplier_bits}, not {real!r}")
    return m, shift


def quantize(
    x: npt.ArrayLike,
    scale: npt.ArrayLike,
    zero_point: npt.ArrayLike,
    dtype: type[np.integer] | np.dtype[np.integer],
) -> npt.NDArray[np.integer]:
    """ONNX QuantizeLinear: ``saturate(rhe(x / scale) + zero_point)``; the division is in float32
    and overflows to infinity; not-a-number becomes the lowest integer, as onnxruntime makes it."""
    info = np.iinfo(dtype)
    with np.errstate(over="ignore"):
        ratio = np.asarray(x, dtype=np.float32) / np.asarray(scale, dtype=np.float32)
    steps: npt.NDArray[np.float64] = np.asarray(np.rint(ratio), dtype=np.float64)
    rounded = steps + np.asarray(zero_point, dtype=np.float64)
    bounded = np.fmin(np.fmax(rounded, info.min), info.max)
    result: npt.NDArray[np.integer] = bounded.astype(dtype)
    return result


def dequantize(
    q: npt.ArrayLike, scale: npt.ArrayLike, zero_point: npt.ArrayLike
) -> npt.NDArray[np.float32]:
    """ONNX DequantizeLinear: ``(q - zero_point) * scale`` in float32, overflowing to infinity."""
    difference = np.asarray(q, dtype=np.int64) - np.asarray(zero_point, dtype=np.int64)
    with np.errstate(over="ignore"):
        product = difference.astype(np.float32) * np.asarray(scale, dtype=np.float32)
    return np.asarray(product, dtype=np.float32)
