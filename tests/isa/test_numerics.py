"""Numerics against exact rationals and Python integers."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daedal.isa.numerics import (
    dequantize,
    quantize,
    quantize_multiplier,
    requantize,
    round_half_even_shift,
    saturate,
    shift_left,
    wrap,
)

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


def exact_round(x: Fraction) -> int:
    return round(x)  # Python rounds half to even


@given(INT64, st.integers(0, 63))
def test_round_half_even_shift_is_exact(x: int, shift: int) -> None:
    assert int(round_half_even_shift(x, shift)) == exact_round(Fraction(x, 1 << shift))


@given(st.integers(-100, 100), st.integers(1, 6))
def test_ties_go_to_even(whole: int, shift: int) -> None:
    tie = (2 * whole + 1) << (shift - 1)
    assert int(round_half_even_shift(tie, shift)) % 2 == 0


@given(
    st.integers(-(1 << 47), (1 << 47) - 1),
    st.integers(-(1 << 47), (1 << 47) - 1),
    st.integers(0, (1 << 26) - 1),
    st.integers(0, 63),
    st.integers(-128, 127),
    st.integers(-(1 << 15), 0),
    st.integers(0, (1 << 15) - 1),
)
def test_requantize_is_exact(
    acc: int, bias: int, multiplier: int, shift: int, zero_point: int, low: int, high: int
) -> None:
    value = exact_round(Fraction((acc + bias) * multiplier, 1 << shift)) + zero_point
    expected = min(max(value, low), high)
    assert int(requantize(acc, bias, multiplier, shift, zero_point, low, high)) == expected


@given(st.integers(-20, 20), st.integers(1, 44), st.integers(-1, 1), st.sampled_from((1, 3, 255)))
def test_requantize_beside_ties(whole: int, shift: int, beside: int, factor: int) -> None:
    """A tie, and the products just above and below it, whichever bits the shift drops."""
    near = ((2 * whole + 1) << (shift - 1)) + beside
    acc = -(-near // factor)
    expected = exact_round(Fraction(acc * factor, 1 << shift))
    assert int(requantize(acc, 0, factor, shift, 0, -(1 << 15), (1 << 15) - 1)) == expected


@given(INT64, st.sampled_from((4, 8, 16, 32, 48, 64)))
def test_wrap_and_saturate(x: int, bits: int) -> None:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    assert int(wrap(x, bits)) == (x - low) % (1 << bits) + low
    assert int(saturate(x, bits)) == min(max(x, low), high)


@given(st.integers(-(1 << 47), (1 << 47) - 1), st.integers(0, 63), st.sampled_from((32, 48)))
def test_shift_left_wraps(x: int, amount: int, bits: int) -> None:
    low = -(1 << (bits - 1))
    assert int(shift_left(x, amount, bits)) == ((x << amount) - low) % (1 << bits) + low


@given(st.floats(1e-12, 1000.0), st.integers(11, 26))
def test_quantize_multiplier_is_close(real: float, bits: int) -> None:
    m, s = quantize_multiplier(real, bits)
    assert 0 <= m < 1 << bits and 0 <= s <= 63
    error = abs(Fraction(m, 1 << s) - Fraction(real))
    # Half a unit in the last place of m, or of the largest shift.
    assert error <= max(Fraction(real) / (1 << bits), Fraction(1, 1 << 64))


@pytest.mark.parametrize(
    ("real", "bits", "best"),
    [
        (0.0, 17, (0, 0)),
        (1.0, 17, (1 << 16, 16)),
        # The mantissa rounds up to 2**17, which has one bit more than there are.
        (0.9999999, 17, (1 << 16, 16)),
        (0.9999999 * 2.0**-47, 17, (1 << 16, 63)),
        (2.0**17 - 1, 17, ((1 << 17) - 1, 0)),
        # The largest shift leaves fewer bits: 3.5 is a tie.
        (2.0**-47, 17, (1 << 16, 63)),
        (2.0**-48, 17, (1 << 15, 63)),
        (3.5 * 2.0**-63, 17, (4, 63)),
        (2.0**-80, 17, (0, 63)),
    ],
)
def test_quantize_multiplier_at_its_edges(real: float, bits: int, best: tuple[int, int]) -> None:
    assert quantize_multiplier(real, bits) == best


def test_quantize_multiplier_keeps_within_a_smaller_shift() -> None:
    assert quantize_multiplier(0.75 * 2.0**-14, 17, max_shift=31) == (0b11 << 15, 31)
    assert quantize_multiplier(0.75 * 2.0**-15, 17, max_shift=31) == (0b11 << 14, 31)


@pytest.mark.parametrize("real", [2.0**17, 131071.9, 2.0**40])
def test_quantize_multiplier_names_the_bound(real: float) -> None:
    with pytest.raises(ValueError, match=r"must be below 2\*\*17"):
        quantize_multiplier(real, 17)


@pytest.mark.parametrize("real", [-1.0, float("nan"), float("inf"), 1e9])
def test_quantize_multiplier_refuses(real: float) -> None:
    with pytest.raises(ValueError, match="a scale ratio must be"):
        quantize_multiplier(real, 17)


def test_quantize_saturates_and_rounds_to_even() -> None:
    x = np.array([-1e9, -0.75, 0.25, 0.75, 1.25, 1e9], dtype=np.float32)
    assert quantize(x, 0.5, 1, np.int8).tolist() == [-128, -1, 1, 3, 3, 127]
    assert dequantize(np.int8([-128, 1]), 0.5, 1).tolist() == [-64.5, 0.0]
