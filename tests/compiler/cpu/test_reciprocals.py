"""Quotients by a scale: products with two parts of its reciprocal are rounded alike."""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from daedal.compiler import te
from daedal.compiler.cpu.constants import Constants
from daedal.compiler.cpu.fusion import fuse
from daedal.compiler.cpu.kernel import Kernel, kernel_function
from daedal.compiler.cpu.reciprocals import reciprocal_of, with_reciprocals
from daedal.compiler.ops.cpu.schedule import schedule_map
from daedal.compiler.ops.onnx.over_axes import power
from daedal.compiler.tir.expr import Axis, Binary, Call, Expr, FloatImm, IntImm, Reduce, Select
from daedal.compiler.tir.visit import walk
from daedal.native.levels import level_cpu, levels_to_run
from tests.support.machine_code import run_machine_code

SCALES = [1e-8, 0.0123, 1 / 3, 0.05, 1.0, 2.0**-7, 0.9999999, 1.0000001, 7e-5, 312.7]


def quantized(value: Expr, scale: float, zero: int = 3) -> Expr:
    """QuantizeLinear to int8."""
    whole = te.round(value / FloatImm(float(np.float32(scale)), "float32"))
    return (whole + float(zero)).astype("int8")


def names_in(formula: Expr) -> set[str]:
    calls = {node.name for node in walk(formula) if isinstance(node, Call)}
    return calls | {node.op for node in walk(formula) if isinstance(node, Binary)}


@pytest.mark.parametrize("scale", SCALES)
def test_all_levels_round_as_division_does(scale: float) -> None:
    """Floats around all ties, and what has no quotient."""
    x = te.placeholder((20_000,), "float32", "x")
    own = np.float32(scale)
    parts = reciprocal_of(float(own))
    assert parts is not None
    divisor, high, low = (FloatImm(float(item), "float32") for item in (own, *parts))
    y = te.compute(x.shape, lambda i: te.rounded_quotient(x[i], divisor, high, low), "y")
    func = schedule_map(te.create_prim_func([x], [y], "quotient"), "y")
    rng = np.random.default_rng(0)
    ties = ((rng.integers(-300, 300, x.shape) + 0.5) * own).astype(np.float32)
    moved = ties.view(np.int32) + rng.integers(-6, 7, x.shape).astype(np.int32)
    values = moved.view(np.float32).copy()
    values[:5] = np.inf, -np.inf, np.nan, 0.0, 1e-45
    for level in levels_to_run():
        found = run_machine_code(func, {"x": values}, cpu=level_cpu(level))["y"]
        np.testing.assert_array_equal(found, np.rint(values / own))
        assert not np.signbit(found[found == 0]).any()


@pytest.mark.parametrize("scale", [1e-8, 0.0123, 1 / 3, 312.7])
@pytest.mark.parametrize(
    ("zero", "narrow", "dtype"),
    [(0, "int8", "int8"), (3, "int8", "int16"), (-128, "int8", "int8"), (131, "uint8", "uint8")],
)
def test_bytes_are_rounded_by_their_conversion(
    scale: float, zero: int, narrow: str, dtype: str
) -> None:
    """As division and rounding give them, within the type; 0 for what is no number."""
    own = np.float32(scale)
    rng = np.random.default_rng(1)
    ties = ((rng.integers(-300, 300, 4096) + 0.5) * own).astype(np.float32)
    values = (ties.view(np.int32) + rng.integers(-6, 7, ties.shape).astype(np.int32)).view("f4")
    values[:9] = np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-45, 3e38, -3e38, np.nan
    x = te.placeholder(values.shape, "float32", "x")
    parts = reciprocal_of(float(own))
    assert parts is not None
    given = [FloatImm(float(item), "float32") for item in (own, *parts)]

    def quantized(i: Expr) -> Expr:
        whole = te.rounded_quotient(x[i], *given)
        byte = (whole + float(zero) if zero else whole).astype(narrow)
        return byte if dtype == narrow else byte.astype(dtype)

    func = te.create_prim_func([x], [te.compute(x.shape, quantized, "y")], "bytes")
    limits = np.iinfo(narrow)
    with np.errstate(over="ignore"):
        whole = np.rint(values / own) + np.float32(zero)
    wanted = np.nan_to_num(whole, nan=limits.min).clip(limits.min, limits.max)
    for level in levels_to_run():
        cpu = level_cpu(level)
        found = run_machine_code(schedule_map(func, "y"), {"x": values}, cpu=cpu)["y"]
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(("zero", "dtype"), [(0, "int16"), (-300, "int16"), (32768, "uint16")])
@pytest.mark.parametrize("scale", [0.00031, 1 / 3])
def test_integers_of_16_bits_are_those_of_division(scale: float, zero: int, dtype: str) -> None:
    """Around every tie that such an integer has."""
    own, limits = np.float32(scale), np.iinfo(dtype)
    ties = (np.arange(limits.min - zero, limits.max - zero) + 0.5) * own
    bits = ties.astype(np.float32).view(np.int32)
    values = np.stack([bits - 1, bits, bits + 1]).view(np.float32).reshape(-1)
    x = te.placeholder(values.shape, "float32", "x")
    real = te.round(x[Axis("i", extent=len(values))] / FloatImm(float(own), "float32"))
    assert "rounded_quotient" in names_in(with_reciprocals(real.astype(dtype)))

    def quantized(i: Expr) -> Expr:
        whole = te.round(x[i] / FloatImm(float(own), "float32"))
        return with_reciprocals((whole + IntImm(zero, "int32").astype("float32")).astype(dtype))

    func = te.create_prim_func([x], [te.compute(x.shape, quantized, "y")], "wide")
    wanted = (np.rint(values / own) + zero).clip(limits.min, limits.max)
    for level in levels_to_run():
        cpu = level_cpu(level)
        found = run_machine_code(schedule_map(func, "y"), {"x": values}, cpu=cpu)["y"]
        np.testing.assert_array_equal(found, wanted)


def test_parts_of_a_reciprocal() -> None:
    """Both are positive, so that their products with infinite values are no differences."""
    for scale in SCALES:
        parts = reciprocal_of(float(np.float32(scale)))
        assert parts is not None and min(parts) > 0
        error = abs(1 / Fraction(float(np.float32(scale))) - sum(map(Fraction, parts)))
        assert error <= Fraction(parts[0]) / 2**46
    scales = np.random.default_rng(1).uniform(1e-3, 1, 50).astype(np.float32)
    assert sum(reciprocal_of(float(scale)) is not None for scale in scales) > 45
    assert reciprocal_of(0.0) is None and reciprocal_of(2.0**-100) is None


def test_what_is_no_quantization_is_divided() -> None:
    x = te.placeholder((8,), "float32", "x")
    y = te.compute((8,), lambda i: quantized(x[i], 0.02), "y")
    assert y.value is not None
    assert with_reciprocals(y.value) == y.value  # 3.0 is no zero point
    z = te.compute((8,), lambda i: te.round(x[i] / FloatImm(0.02, "float32")), "z")
    assert z.value is not None
    assert with_reciprocals(z.value) == z.value


def test_a_zero_point_of_0_is_not_added() -> None:
    x = te.placeholder((8,), "float32", "x")

    def formula(i: Expr, zero: int) -> Expr:
        whole = te.round(x[i] / FloatImm(0.02, "float32"))
        return (whole + IntImm(zero, "int8").astype("float32")).astype("int8")

    for zero in (0, 3):
        y = te.compute((8,), lambda i, zero=zero: formula(i, zero), "y")
        assert y.value is not None
        assert ("+" in names_in(with_reciprocals(y.value))) == bool(zero)


def quantized_softmax(
    scale: float, also: Callable[[Expr], Expr], reduce: Callable[..., Expr] = te.max
) -> Kernel:
    """The kernel of a softmax in 8 bits, plus what `also` gives of a power; what is taken from all
    elements is another number than the largest one with another `reduce`."""
    shape = (6, 40)
    x = te.placeholder(shape, "float32", "x")
    j, k = (te.reduce_axis(shape[1], name) for name in "jk")
    m = te.compute((6, 1), lambda i, _: reduce(x[i, j], [j]), "m")
    e = te.compute(shape, lambda i, j: power(x[i, j] - m[i, 0], terms=shape[1]), "e")
    s = te.compute((6, 1), lambda i, _: te.sum(e[i, k], [k]), "s")
    share = te.compute((6, 1), lambda i, n: 1 / s[i, n], "share")
    divisor = FloatImm(float(np.float32(scale)), "float32")

    def result(i: Expr, j: Expr) -> Expr:
        whole = te.round(e[i, j] * share[i, 0] / divisor).astype("int8")
        return whole.astype("float32") * divisor + also(e[i, j])

    y = te.compute(shape, result, "y")
    return fuse([y], Constants({}))[y]


def test_a_softmax_in_8_bits_has_no_tiny_powers() -> None:
    """They are 0 with any scale; and no product with one is subnormal."""
    kernel = quantized_softmax(1 / 127, lambda _: FloatImm(0.0, "float32"))
    formulas = [item.value for item in (*kernel.stages, kernel.result) if item.value is not None]
    nodes = [node for formula in formulas for node in walk(formula)]
    assert not any(isinstance(node, Select) for node in nodes)
    assert any(isinstance(node, Call) and node.name == "rounded_quotient" for node in nodes)
    x = np.random.default_rng(2).normal(size=(6, 40)).astype(np.float32) * 40
    x[0, 1:], x[1] = -math.inf, -1e4
    wanted = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    wanted = np.rint(wanted / wanted.sum(1, keepdims=True) / np.float32(1 / 127)).clip(-128, 127)
    table = np.array([np.float32(1 / 127), *(reciprocal_of(float(np.float32(1 / 127))) or ())])
    given = {"x0": x} | {item.name: table for item in kernel.inputs if item.name != "x0"}
    given = {name: value.astype(np.float32) for name, value in given.items()}
    func = kernel_function(kernel).func
    for level in levels_to_run():
        (found,) = run_machine_code(func, given, cpu=level_cpu(level)).values()
        np.testing.assert_array_equal(np.rint(found * 127), wanted)


@pytest.mark.parametrize(
    ("scale", "also", "reduce"),
    [(1 / 127, 1.0, te.max), (1e-8, 0.0, te.max), (1 / 127, 0.0, te.sum)],
)
def test_tiny_powers_stay_for_other_readers_scales_and_sums(
    scale: float, also: float, reduce: Callable[..., Expr]
) -> None:
    def read(value: Expr) -> Expr:
        return value * also if also else FloatImm(0.0, "float32")

    kernel = quantized_softmax(scale, read, reduce)
    assert any(
        isinstance(node, Select)
        for item in kernel.stages
        for node in walk(item.value.value if isinstance(item.value, Reduce) else item.value)
    )


def small_row(function: Callable[[Expr], Expr]) -> Expr:
    """The result of a kernel of rows: what `function` gives times a sum, quantized."""
    x = te.placeholder((4, 32), "float32", "x")
    k = te.reduce_axis(32, "k")
    e = te.compute((4, 32), lambda i, j: function(x[i, j]), "e")
    s = te.compute((4, 1), lambda i, _: te.sum(e[i, k], k), "s")

    def result(i: Expr, j: Expr) -> Expr:
        return te.round(e[i, j] * s[i, 0] / FloatImm(0.0123, "float32")).astype("int8")

    y = te.compute((4, 32), result, "y")
    kernel = fuse([y], Constants({}))[y]
    assert kernel.stages and kernel.result.value is not None
    return kernel.result.value


def test_rows_with_exponents_are_divided_if_they_may_be_negative() -> None:
    """Their results may be so small that processors stall on products."""
    assert "/" in names_in(small_row(lambda value: te.exp(value) - 1.0))
    for function in (te.exp, te.sqrt):
        assert "/" not in names_in(small_row(function))


def test_exponents_are_quantized_by_products_of_normal_numbers() -> None:
    """What is so small that products with it would be subnormal becomes 0."""
    x = te.placeholder((64,), "float32", "x")

    def y(scale: float) -> te.Tensor:
        divisor = FloatImm(float(np.float32(scale)), "float32")
        return te.compute(x.shape, lambda i: te.round(te.exp(x[i]) / divisor).astype("int8"), "y")

    plain, small = y(1 / 100), y(1e-7)
    assert plain.value is not None and small.value is not None
    assert "/" in names_in(with_reciprocals(small.value, may_be_tiny=True))
    changed = with_reciprocals(plain.value, may_be_tiny=True)
    assert "rounded_quotient" in names_in(changed) and "/" not in names_in(changed)
    tensor = te.Tensor("y", x.shape, "int8", "global", plain.axes, changed)
    func = schedule_map(te.create_prim_func([x], [tensor], "quotient"), "y")
    values = np.linspace(-87, 0.2, 64).astype(np.float32)
    wanted = np.rint(np.exp(values.astype(np.float64)) * 100)
    for level in levels_to_run():
        found = run_machine_code(func, {"x": values}, cpu=level_cpu(level))["y"]
        np.testing.assert_array_equal(found, wanted)
