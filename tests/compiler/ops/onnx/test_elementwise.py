"""Elementwise operators: their tensor expressions against ONNX's reference evaluator."""

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from onnx import helper

from daedal.common.errors import UnsupportedError
from tests.support.onnx_operators import check_node, lowered_results

RNG = np.random.default_rng(1)

SHAPES = [(), (5,), (2, 3, 4)]
BROADCASTS = [
    ((), ()),
    ((2, 3), (2, 3)),
    ((2, 3), ()),
    ((), (4,)),
    ((2, 1, 4), (3, 1)),
    ((1, 3), (2, 1)),
]
FLOATS = ["float16", "float32", "float64"]
SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
INTEGERS = [*SIGNED, *UNSIGNED]
TOLERANCE = {"float16": 2e-3, "float32": 1e-5, "float64": 1e-12}
ODD = [np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -2.5, 1e-4, -1e-4, 60000.0]
"""Numbers that float16 has."""

ANYWHERE = [
    *("Abs", "Atan", "Ceil", "Cos", "Erf", "Exp", "Floor", "Identity", "IsNaN", "IsInf", "Neg"),
    *("Reciprocal", "Round", "Sign", "Sin", "Sinh", "Cosh", "Asinh", "Tan"),
]
DOMAINS = {"Acos": (-1, 1), "Asin": (-1, 1), "Atanh": (-0.9, 0.9), "Acosh": (1, 5)}
DOMAINS |= {"Log": (0, 9), "Sqrt": (0, 9)}


def floats(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.asarray(RNG.normal(size=shape) * 3).astype(dtype)


def whole(*shape: int, dtype: str) -> np.ndarray:
    info = np.iinfo(dtype)
    return np.asarray(RNG.integers(info.min, info.max, shape, dtype=dtype, endpoint=True))


def extremes(dtype: str) -> np.ndarray:
    info = np.iinfo(dtype)
    return np.array([info.min, info.min + 1, 0, 1, 7, info.max - 1, info.max], dtype=dtype)


def pairs(values: Sequence[object], dtype: str) -> tuple[np.ndarray, np.ndarray]:
    both = list(itertools.product(values, repeat=2))
    return tuple(np.array(side, dtype=dtype) for side in zip(*both, strict=True))  # type: ignore[return-value]


@pytest.mark.parametrize("op_type", [*ANYWHERE, *DOMAINS])
@pytest.mark.parametrize("shape", SHAPES)
def test_unary(op_type: str, shape: tuple[int, ...]) -> None:
    low, high = DOMAINS.get(op_type, (-3, 3))
    check_node(op_type, {"x": np.asarray(RNG.uniform(low, high, shape), np.float32)})


@pytest.mark.parametrize("op_type", [*ANYWHERE, *DOMAINS])
@pytest.mark.parametrize("dtype", FLOATS)
def test_unary_of_odd_numbers(op_type: str, dtype: str) -> None:
    odd = np.array(ODD, dtype=dtype)
    # The tangent of 60000 in float16 depends on how far its argument is reduced.
    odd = odd[:-1] if dtype == "float16" and op_type in ("Tan", "Sin", "Cos") else odd
    check_node(op_type, {"x": odd}, rtol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", SIGNED)
def test_signed_integers(dtype: str) -> None:
    for op_type in ("Abs", "Neg", "Sign"):
        check_node(op_type, {"x": extremes(dtype)})


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_unsigned_integers(dtype: str) -> None:
    for op_type in ("Abs", "Sign"):
        check_node(op_type, {"x": extremes(dtype)})


def test_negative_zero() -> None:
    """`check_node` does not tell it from 0."""
    x = np.array([0.0, -0.0], np.float32)
    for op_type, negative in (("Neg", [True, False]), ("Abs", [False, False])):
        node = helper.make_node(op_type, ["x"], ["y"])
        (found,) = lowered_results(node, 21, {"x": x}, (), [x])
        assert np.signbit(found).tolist() == negative
    check_node("Reciprocal", {"x": x})


@pytest.mark.parametrize("ends", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_infinities_by_sign(ends: tuple[int, int]) -> None:
    x = np.array(ODD, np.float32)
    check_node("IsInf", {"x": x}, detect_negative=ends[0], detect_positive=ends[1])


@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul", "Div", "Pow"])
@pytest.mark.parametrize("shapes", BROADCASTS)
def test_binary_broadcasts(op_type: str, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    check_node(op_type, {"a": np.abs(floats(*shapes[0])), "b": floats(*shapes[1])})


@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul", "Div", "Pow", "Min", "Max"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_binary_of_odd_numbers(op_type: str, dtype: str) -> None:
    a, b = pairs(ODD, dtype)
    check_node(op_type, {"a": a, "b": b}, rtol=TOLERANCE[dtype])


@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul", "Min", "Max"])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_binary_integers_wrap(op_type: str, dtype: str) -> None:
    a, b = pairs(extremes(dtype).tolist(), dtype)
    check_node(op_type, {"a": a, "b": b})


@pytest.mark.parametrize("dtype", INTEGERS)
def test_division_truncates_towards_zero(dtype: str) -> None:
    info = np.iinfo(dtype)
    values = [v for v in (-9, -7, -2, 2, 7, 9, info.max, info.min + 1) if v >= info.min and v]
    a, b = pairs(values, dtype)
    check_node("Div", {"a": a, "b": b})
    check_node("Mod", {"a": a, "b": b})
    check_node("Mod", {"a": a, "b": b}, fmod=1)


@pytest.mark.parametrize("dtype", FLOATS)
def test_remainder_of_floats(dtype: str) -> None:
    a, b = pairs([-7.5, -2.0, -0.5, 0.5, 2.0, 7.5], dtype)
    check_node("Mod", {"a": a, "b": b}, fmod=1)
    check_node("Mod", {"a": a, "b": b}, opset=28)


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 5, 10])
@pytest.mark.parametrize("dtype", ["int32", "int64", "float16", "float32", "float64"])
def test_power_of_a_constant(exponent: int, dtype: str) -> None:
    x = np.array([-5, -2, -1, 0, 1, 2, 3], dtype=dtype)
    for other in (dtype, "float32", "int64"):
        if dtype.startswith("int") and other == "float32":
            continue
        feeds = {"x": x, "y": np.array(exponent, dtype=other)}
        check_node("Pow", feeds, constants=["y"], rtol=TOLERANCE.get(dtype, 0))
        check_node("Pow", feeds, rtol=TOLERANCE.get(dtype, 0))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_powers_by_multiplication_are_rounded_once(dtype: str) -> None:
    x = np.array([*ODD, 1.1, -1.3, 3.3], dtype)
    for exponent in (3, 4, 7, 64):
        feeds = {"x": x, "y": np.array(exponent, dtype)}
        node = helper.make_node("Pow", ["x", "y"], ["y0"])
        (found,) = lowered_results(node, 21, feeds, ["y"], [x])
        with np.errstate(all="ignore"):
            wanted = (x.astype(np.float64) ** exponent).astype(dtype)
        np.testing.assert_array_equal(found, wanted)


def test_power_of_mixed_types() -> None:
    a = np.array([1, 2, 9, 100], np.int32)
    check_node("Pow", {"a": a, "b": np.array([0.5, 1.5, -1.0, 2.25], np.float32)})
    check_node("Pow", {"a": a.astype(np.float32), "b": np.array([3, -1, 0, 2], np.int64)})


@pytest.mark.parametrize("op_type", ["Min", "Max", "Sum", "Mean"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_variadic(op_type: str, count: int) -> None:
    shapes = [(2, 3), (3,), (), (2, 1)]
    feeds = {f"x{n}": floats(*shapes[n]) for n in range(count)}
    check_node(op_type, feeds)
    check_node(op_type, feeds, opset=8)


@pytest.mark.parametrize("op_type", ["And", "Or", "Xor", "Equal"])
@pytest.mark.parametrize("shapes", BROADCASTS)
def test_bools(op_type: str, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a, b = (np.asarray(RNG.integers(0, 2, shape)).astype(bool) for shape in shapes)
    check_node(op_type, {"a": a, "b": b})
    check_node("Not", {"a": a})


@pytest.mark.parametrize("dtype", INTEGERS)
def test_bits(dtype: str) -> None:
    a, b = pairs(extremes(dtype).tolist(), dtype)
    for op_type in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        check_node(op_type, {"a": a, "b": b})
    check_node("BitwiseNot", {"a": a})


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
@pytest.mark.parametrize("dtype", UNSIGNED)
def test_shifts(direction: str, dtype: str) -> None:
    a = whole(40, dtype=dtype)
    amounts = RNG.integers(0, np.iinfo(dtype).bits, 40).astype(dtype)
    check_node("BitShift", {"a": a, "b": amounts}, opset=11, direction=direction)


@pytest.mark.parametrize("op_type", ["Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"])
@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_comparisons(op_type: str, dtype: str) -> None:
    values = ODD if dtype in FLOATS else extremes(dtype).tolist()
    a, b = pairs(values, dtype)
    check_node(op_type, {"a": a, "b": b})
    check_node(op_type, {"a": a.reshape(-1, 1), "b": b[:3]})


@pytest.mark.parametrize("dtype", ["bool", "uint64", "int8", "float16", "float32"])
def test_where(dtype: str) -> None:
    condition = np.array([[True], [False]])
    x, y = RNG.integers(0, 2, 3).astype(dtype), RNG.integers(0, 2, (4, 1, 3)).astype(dtype)
    check_node("Where", {"c": condition, "x": x, "y": y})
    check_node("Where", {"c": np.array(True), "x": x[0].reshape(()), "y": y[0, 0, 0].reshape(())})


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_clip_by_operands(dtype: str) -> None:
    x = (RNG.integers(0, 100, (3, 4))).astype(dtype)
    low, high = np.array(20, dtype=dtype), np.array(60, dtype=dtype)
    feeds = {"x": x, "low": low, "high": high}
    check_node("Clip", feeds)
    check_node("Clip", {"x": x, "low": low})
    check_node("Clip", {"x": x, "high": high}, inputs=["x", "", "high"])
    check_node("Clip", {"x": x})
    check_node("Clip", {"x": x, "low": high, "high": low})


def test_clip_by_attributes() -> None:
    x = np.array([-5, -1, 0, 3, np.nan, 9], np.float32)
    check_node("Clip", {"x": x}, opset=7, min=-1.5, max=4.0)
    check_node("Clip", {"x": x}, opset=10, max=4.0)
    check_node("Clip", {"x": x}, opset=10)


def test_what_te_does_not_express_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="value of erf must be a float, not int32"):
        check_node("Erf", {"x": np.array([1], np.int32)})
