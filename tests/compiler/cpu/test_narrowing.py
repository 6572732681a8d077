"""Integers that are converted further are not made narrow first."""

import numpy as np
import pytest

from daedal.compiler import te
from daedal.compiler.codegen.llvm.function import function_text
from daedal.compiler.cpu.narrowing import without_narrow_casts
from daedal.compiler.ops.cpu.schedule import schedule_map
from daedal.compiler.tir.expr import Call, Cast, Expr, FloatImm
from daedal.compiler.tir.visit import substitute, walk
from daedal.native.levels import level_cpu, levels_to_run
from tests.support.machine_code import run_machine_code


@pytest.mark.parametrize(
    ("low", "high", "zero", "is_left_out"),
    [(0, 255, -128, True), (-128, 127, 0, True), (0, 255, -127, False), (-129, 0, 0, False)],
)
def test_casts_that_change_nothing_are_left_out(
    low: int, high: int, zero: int, is_left_out: bool
) -> None:
    x = te.placeholder((4,), "int32", "x")
    y = te.compute(
        (4,), lambda i: (te.clip(x[i], low, high) + zero).astype("int8").astype("float32"), "y"
    )
    assert y.value is not None
    found = without_narrow_casts(y.value)
    casts = [node.dtype for node in walk(found) if isinstance(node, Cast)]
    assert ("int8" not in casts) == is_left_out


def test_several_casts_that_change_nothing_are_left_out() -> None:
    x = te.placeholder((4,), "int32", "x")
    y = te.compute(
        (4,), lambda i: te.clip(x[i], 0, 9).astype("int8").astype("int32").astype("float32"), "y"
    )
    assert y.value is not None
    found = without_narrow_casts(y.value)
    assert [node.dtype for node in walk(found) if isinstance(node, Cast)] == ["float32"]


def test_rounded_products_that_become_floats_are_floats() -> None:
    x = te.placeholder((64,), "int32", "x")
    high, low = FloatImm(0.37, "float32"), FloatImm(1e-9, "float32")

    def formula(i: Expr) -> Expr:
        whole = te.nearest_product(x[i].astype("float32"), high, low)
        return (te.clip(whole, 0, 255) + -128).astype("int8").astype("float32")

    y = te.compute((64,), formula, "y")
    assert y.value is not None
    found = without_narrow_casts(y.value)
    assert [node.dtype for node in walk(found) if isinstance(node, Cast)] == ["float32"]
    assert [node.name for node in walk(found) if isinstance(node, Call)] == ["rounded_product"]
    real = te.compute((64,), lambda i: substitute(found, {y.axes[0]: i}), "y")
    given = {"x": np.random.default_rng(0).integers(-900, 900, 64).astype(np.int32)}
    wanted = np.rint(given["x"] * (0.37 + 1e-9)).clip(0, 255) - 128
    for level in levels_to_run():
        func = schedule_map(te.create_prim_func([x], [real], "real"), "y")
        result = run_machine_code(func, given, cpu=level_cpu(level))["y"]
        np.testing.assert_array_equal(result, wanted)


def test_bounds_that_are_not_known_keep_the_cast() -> None:
    x = te.placeholder((4,), "int32", "x")
    y = te.compute((4,), lambda i: (x[i] + 1).astype("int8").astype("float32"), "y")
    assert y.value is not None
    assert str(without_narrow_casts(y.value)) == str(y.value)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("zero", [0.0, -3.0])
def test_whole_floats_are_bounded_as_integers_are(dtype: str, zero: float) -> None:
    values = [0.3, -0.3, -0.5, 2.5, 126.6, 128.2, 300.0, -131.0, -1e9, 4e9, 7e4]
    given = np.array([*values, np.nan, np.inf, -np.inf, -0.0, 254.5], np.float32)
    x = te.placeholder(given.shape, "float32", "x")
    y = te.compute(
        given.shape, lambda i: (te.round(x[i]) + zero).astype(dtype).astype("float32"), "y"
    )
    func = te.create_prim_func([x], [y], "bounded")
    vectors = run_machine_code(schedule_map(func, "y"), {"x": given})["y"]
    one_by_one = run_machine_code(func, {"x": given})["y"]
    limits = np.iinfo(dtype)
    wanted = np.nan_to_num(np.rint(given) + np.float32(zero), nan=limits.min)
    wanted = wanted.clip(limits.min, limits.max)
    for found in (vectors, one_by_one):
        np.testing.assert_array_equal(found, wanted)
        assert not np.signbit(found[found == 0]).any()


def test_int8_that_become_int16_are_converted_once() -> None:
    """Not narrowed to bytes and widened again; what is no number is the lowest."""
    given = np.array([0.3, -2.5, 127.6, 3e9, -3e9, np.nan, np.inf, -np.inf] * 2, np.float32)
    x = te.placeholder(given.shape, "float32", "x")
    y = te.compute(given.shape, lambda i: te.round(x[i]).astype("int8").astype("int16"), "y")
    func = te.create_prim_func([x], [y], "wider")
    vectors = schedule_map(func, "y")
    wanted = np.nan_to_num(np.rint(given), nan=-128).clip(-128, 127)
    for level in levels_to_run():
        for item in (func, vectors):
            found = run_machine_code(item, {"x": given}, cpu=level_cpu(level))["y"]
            np.testing.assert_array_equal(found, wanted)
    assert "i8" not in function_text(vectors, "wider")
