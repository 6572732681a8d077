"""What every operator and intrinsic gives, against Python's own integers and floats."""

import math
import struct
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daedal.compiler import te
from daedal.compiler.tir.dtype import DTYPES, is_integer, limits
from daedal.compiler.tir.errors import ExpressionError
from daedal.compiler.tir.expr import Expr, IntImm, binary
from daedal.compiler.tir.interpreter import run
from daedal.compiler.tir.intrinsics import INTRINSICS

INTEGERS = [dtype for dtype in DTYPES if is_integer(dtype)]
FLOATS = [dtype for dtype in DTYPES if dtype.startswith("float")]


def wrapped(value: int, dtype: str) -> int:
    low, high = limits(dtype)
    return (value - low) % (high - low + 1) + low


def applied(formula: Callable[..., Expr], *columns: np.ndarray) -> list[object]:
    """`formula` of the elements of `columns`, by both interpreters."""
    inputs = [te.placeholder(c.shape, c.dtype.name, f"x{n}") for n, c in enumerate(columns)]
    y = te.compute(columns[0].shape, lambda i: formula(*(x[i] for x in inputs)), "y")
    arrays = {x.name: column for x, column in zip(inputs, columns, strict=True)}
    (result,) = te.evaluate_tensors([y], arrays)
    assert result.dtype == y.dtype
    lowered = run(te.create_prim_func(inputs, [y], "f"), arrays)["y"]
    np.testing.assert_array_equal(result, lowered)
    return result.tolist()


def interesting(dtype: str) -> st.SearchStrategy[int]:
    low, high = limits(dtype)
    edges = [v for v in (low, low + 1, -1, 0, 1, 2, high - 1, high) if low <= v <= high]
    return st.one_of(st.sampled_from(edges), st.integers(low, high))


EXACT: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b if b else 0,
    "%": lambda a, b: a % b if b else 0,
    "min": min,
    "max": max,
}


@pytest.mark.parametrize("op", EXACT)
@given(data=st.data())
def test_integer_operators_wrap(op: str, data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(INTEGERS))
    pairs = data.draw(st.lists(st.tuples(interesting(dtype), interesting(dtype)), min_size=1))
    a, b = (np.array(column, dtype=dtype) for column in zip(*pairs, strict=True))
    wanted = [wrapped(EXACT[op](x, y), dtype) for x, y in pairs]
    assert applied(lambda x, y: binary(op, x, y), a, b) == wanted


@pytest.mark.parametrize("dtype", INTEGERS)
def test_shifts_by_any_amount(dtype: str) -> None:
    low, high = limits(dtype)
    bits = (high - low).bit_length()
    values = [low, high, 1, high // 3]
    pairs = [(value, amount) for value in values for amount in (0, 1, bits - 1, bits, bits + 1)]
    a, b = (np.array(column, dtype=dtype) for column in zip(*pairs, strict=True))
    assert applied(lambda x, y: x << y, a, b) == [wrapped(x << y, dtype) for x, y in pairs]
    assert applied(lambda x, y: x >> y, a, b) == [x >> y for x, y in pairs]


def test_index_arithmetic_wraps_as_int32() -> None:
    """Also where no array takes part: axes are 32-bit variables, not Python's integers."""
    y = te.compute((2,), lambda i: (i + 2147483646) // 2, "y")
    wanted = [1073741823, 1073741823]
    assert te.evaluate_tensors([y], {})[0].tolist() == wanted
    constant = te.compute((1,), lambda i: i + (IntImm(2147483647) + 2), "constant")
    assert te.evaluate_tensors([constant], {})[0].tolist() == [-2147483647]
    z = te.compute((3,), lambda i: te.select((i + 2147483646) < 0, i, -1), "z")
    assert te.evaluate_tensors([z], {})[0].tolist() == [-1, -1, 2]


@pytest.mark.parametrize("target", INTEGERS)
def test_floats_truncate_and_saturate(target: str) -> None:
    low, high = limits(target)
    values = [0.0, -0.0, 1.5, -1.5, 3e38, -3e38, float(low), float(high), float(high) + 1.0]
    values += [math.inf, -math.inf, math.nan, 127.99, -128.5]
    column = np.array(values, dtype=np.float64)

    def expected(value: float) -> int:
        if math.isnan(value):
            return low
        return (
            max(low, min(high, int(value))) if math.isfinite(value) else low if value < 0 else high
        )

    assert applied(lambda x: x.astype(target), column) == [expected(v) for v in values]


@given(st.lists(st.floats(width=32, allow_nan=False), min_size=1))
def test_float_arithmetic_rounds_each_step(values: list[float]) -> None:
    """Against Fraction, rounded to float32 by its encoding."""

    def rounded(value: Fraction) -> float:
        # The double nearest to a sum or product of floats is exact, or near no float32 tie.
        try:
            return struct.unpack("f", struct.pack("f", float(value)))[0]
        except OverflowError:
            return math.copysign(math.inf, value)

    finite = [v for v in values if math.isfinite(v) and abs(v) < 2.0**60] or [1.0]
    column = np.array(finite, dtype=np.float32)
    assert applied(lambda x: x * 3.0 + 0.1, column) == [
        rounded(Fraction(rounded(Fraction(v) * 3)) + Fraction(float(np.float32(0.1))))
        for v in finite
    ]


REFERENCE: dict[str, Callable[..., float]] = {
    "exp": math.exp,
    "log": math.log,
    "tanh": math.tanh,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)) if x > -700 else math.exp(x),
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "asin": math.asin,
    "acos": math.acos,
    "atan": math.atan,
    "sinh": math.sinh,
    "cosh": math.cosh,
    "asinh": math.asinh,
    "acosh": math.acosh,
    "atanh": math.atanh,
    "erf": math.erf,
    "sqrt": math.sqrt,
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "pow": math.pow,
    "fmod": math.fmod,
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": math.trunc,
    "round": round,
    "abs": abs,
}

DOMAINS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    **dict.fromkeys(("log", "sqrt", "rsqrt", "pow"), np.abs),
    **dict.fromkeys(("asin", "acos", "atanh"), lambda values: values / 16),
    "acosh": lambda values: 1 + np.abs(values),
}
"""Maps numbers to where a function is defined."""


@pytest.mark.parametrize("name", REFERENCE)
@pytest.mark.parametrize("dtype", FLOATS)
def test_float_functions(name: str, dtype: str) -> None:
    values = np.array([0.5, 1.0, 1.5, 2.5, 3.75, 9.0, -0.5, -1.5, -2.25, -9.0, 0.001], dtype=dtype)
    values = DOMAINS.get(name, np.asarray)(values).astype(dtype)
    arguments = [values] * len(INTRINSICS[name].parameters)
    found = applied(getattr(te, name), *arguments)
    exact = [REFERENCE[name](*([float(v)] * len(arguments))) for v in values]
    with np.errstate(over="ignore"):
        wanted = np.array(exact).astype(dtype)
    np.testing.assert_allclose(np.array(found, dtype=dtype), wanted, rtol=np.finfo(dtype).eps)


def test_fmod_has_the_sign_of_its_dividend() -> None:
    a = np.array([5.5, -5.5, 5.5, -5.5, 1.0, math.inf, 3.0], dtype=np.float32)
    b = np.array([2.0, 2.0, -2.0, -2.0, math.inf, 2.0, 0.0], dtype=np.float32)
    found = applied(te.fmod, a, b)
    assert found[:5] == [1.5, -1.5, 1.5, -1.5, 1.0] and all(map(math.isnan, found[5:]))


def test_what_is_no_number_is_replaced() -> None:
    values = np.array([1.5, math.nan, -math.inf, math.nan], dtype=np.float32)
    others = np.array([2.0, -math.inf, 3.0, 4.0], dtype=np.float32)
    assert applied(te.number_or, values, others) == [1.5, -math.inf, -math.inf, 4.0]


def test_every_intrinsic_has_a_function() -> None:
    for name, intrinsic in INTRINSICS.items():
        assert callable(getattr(te, name)), name
        assert intrinsic.kind in ("integer", "float", "number")
    tested = {*REFERENCE, "bit_and", "bit_or", "bit_xor", "bit_not", "popcount"}
    tested |= {"dot_pairs", "dot_quads", "multiply_add", "nearest", "nearest_product", "number_or"}
    tested |= {"nearest_scaled", "rounded_product", "rounded_quotient", "rounded_scaled"}
    assert tested | {"requantize", "shift_even", "shift_right_even"} == set(INTRINSICS)


def test_nearest_takes_halves_to_even() -> None:
    column = np.array([0.5, 1.5, -0.5, -2.5, 2.0**31 - 1, 0.4999999999], dtype=np.float64)
    assert applied(te.nearest, column) == [0, 2, 0, -2, 2**31 - 1, 0]


def test_products_of_two_factors_are_rounded_once() -> None:
    columns = [np.array(column, np.float32) for column in ((3.0, -7.0), (0.5, 0.5), (2e-8, -2e-8))]
    assert applied(te.nearest_product, *columns) == [2, -3]
    columns[2] = -columns[2]
    assert applied(te.nearest_product, *columns) == [1, -4]
    assert applied(te.nearest_scaled, *columns[:2]) == [2, -4]
    assert applied(te.rounded_scaled, *columns[:2]) == [2.0, -4.0]


def test_rounded_products_and_sums_of_products_are_floats() -> None:
    columns = [np.array(column, np.float32) for column in ((3.0, -7.0), (0.5, 0.5), (2e-8, 2e-8))]
    assert applied(te.rounded_product, *columns) == [2.0, -4.0]
    assert applied(te.multiply_add, *columns[:2], columns[0]) == [4.5, -10.5]
    assert applied(te.rounded_quotient, *columns, columns[0]) == [6.0, -14.0]


def test_pairs_are_multiplied_and_added_as_int32() -> None:
    columns = [np.array(values, np.int16) for values in ((7, -32768), (2, 1), (3, -32768), (5, 9))]
    found = applied(lambda a, b, c, d: te.dot_pairs((a, b), (c, d)), *columns)
    assert found == [7 * 3 + 2 * 5, 2**30 + 9]


def test_quads_are_uint8_times_int8() -> None:
    columns = [np.array(values, np.uint8) for values in ((255, 1), (255, 2), (255, 0), (255, 9))]
    columns += [
        np.array(values, np.int8) for values in ((-128, 3), (-128, 4), (-128, 7), (-128, -1))
    ]
    found = applied(lambda *items: te.dot_quads(items[:4], items[4:]), *columns)
    assert found == [4 * 255 * -128, 3 + 8 - 9]
    with pytest.raises(ExpressionError, match="four uint8 and four int8"):
        applied(lambda *items: te.dot_quads(items[4:], items[:4]), *columns)


def test_extremes_do_not_warn() -> None:
    column = np.array([-1e30, 1e30, 0.0, np.inf, -np.inf], dtype=np.float32)
    assert applied(te.sigmoid, column) == [0.0, 1.0, 0.5, 1.0, 0.0]
    assert applied(lambda x: x / 0.0, column[:2]) == [-math.inf, math.inf]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_bits(dtype: str) -> None:
    low, high = limits(dtype)
    span = high - low + 1
    values = [v for v in (low, -1, 0, 1, 5, high) if low <= v <= high]
    column = np.array(values, dtype=dtype)
    other = np.array(values[::-1], dtype=dtype)
    pairs = list(zip(values, values[::-1], strict=True))
    assert applied(te.popcount, column) == [bin(v % span).count("1") for v in values]
    assert applied(te.bit_not, column) == [wrapped(~v, dtype) for v in values]
    assert applied(te.bit_and, column, other) == [a & b for a, b in pairs]
    assert applied(te.bit_or, column, other) == [a | b for a, b in pairs]
    assert applied(te.bit_xor, column, other) == [a ^ b for a, b in pairs]
    assert applied(te.abs, column) == [wrapped(abs(v), dtype) for v in values]


def test_machine_rounding() -> None:
    column = np.array([-6, -5, -3, 3, 5, 6, 7], dtype=np.int32)
    assert applied(lambda x: te.shift_right_even(x, 1), column) == [-3, -2, -2, 2, 2, 3, 4]
    assert applied(lambda x: te.clip(x, -4, 5), column) == [-4, -4, -3, 3, 5, 5, 5]
