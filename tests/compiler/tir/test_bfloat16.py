"""bfloat16: its conversions by numpy, by the interpreters and by machine code."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from daedal.compiler import te
from daedal.compiler.ops.cpu.schedule import schedule_map
from daedal.compiler.tir.bfloat16 import bfloat16_bits, bfloat16_values
from daedal.compiler.tir.errors import ExpressionError
from daedal.compiler.tir.expr import Buffer, Expr, FloatImm, Load, Var, eq
from daedal.compiler.tir.interpreter import run
from daedal.compiler.tir.parser import parse_func
from daedal.compiler.tir.printer import func_text
from daedal.compiler.tir.stmt import PrimFunc
from tests.support.machine_code import run_machine_code

Floats = npt.NDArray[np.float32]
SHAPE = (5, 37)
"""With lanes, and some that are left."""


def nearest(values: Floats) -> npt.NDArray[np.float64]:
    """To eight digits, by arithmetic: exponents as small as float32's, and numbers from the end of
    its range on become infinite."""
    with np.errstate(invalid="ignore"):
        wide = values.astype(np.float64)
        exponent = np.maximum(np.frexp(wide)[1], -125)
        step = np.ldexp(1.0, exponent - 8)
        found = np.rint(wide / step) * step
    return np.where(np.abs(found) >= 2.0**128, np.copysign(np.inf, wide), found)


def ties(rng: np.random.Generator) -> Floats:
    """Random bits, and every bfloat16, the tie behind it, and the floats next to that."""
    every = np.arange(1 << 16, dtype=np.uint32) << 16
    near = (every[:, np.newaxis] + np.array([0, 1, 0x7FFF, 0x8000, 0x8001], np.uint32)).ravel()
    bits = np.concatenate([rng.integers(0, 1 << 32, 10_000, dtype=np.uint32), near])
    return bits.view(np.float32)


def test_the_nearest_number_the_even_one_of_two(rng: np.random.Generator) -> None:
    values = ties(rng)
    found = bfloat16_values(bfloat16_bits(values))
    np.testing.assert_array_equal(found, nearest(values).astype(np.float32))
    same = ~np.isnan(values)
    assert (np.signbit(found) == np.signbit(values))[same].all()


def function(source: str, dtype: str) -> PrimFunc:
    x = te.placeholder(SHAPE, source, "x")
    y = te.compute(SHAPE, lambda i, j: x[i, j].astype(dtype), "y")
    return schedule_map(te.create_prim_func([x], [y]), "y")


def test_machine_code_and_interpreters_round_alike(rng: np.random.Generator) -> None:
    values = rng.choice(ties(rng), SHAPE)
    values[0, :5] = np.nan, np.inf, -np.inf, 1 + 2**-8, 1 + 3 * 2**-8
    there, back = function("float32", "bfloat16"), function("bfloat16", "float32")
    assert func_text(parse_func(func_text(there))) == func_text(there)
    bits = bfloat16_bits(values)
    for func, given, wanted in ((there, values, bits), (back, bits, bfloat16_values(bits))):
        for found in (run(func, {"x": given}), run_machine_code(func, {"x": given})):
            np.testing.assert_array_equal(found["y"], wanted)


@pytest.mark.parametrize("other", ["int8", "uint16", "int64", "bool", "float16"])
def test_other_types_become_float32_first(other: str) -> None:
    values = np.linspace(0, 300, 5 * 37, dtype=np.float32).reshape(SHAPE).astype(other)
    func = function(other, "bfloat16")
    bits = bfloat16_bits(values.astype(np.float32))
    for found in (run(func, {"x": values}), run_machine_code(func, {"x": values})):
        np.testing.assert_array_equal(found["y"], bits)
    func = function("bfloat16", other)
    for found in (run(func, {"x": bits}), run_machine_code(func, {"x": bits})):
        assert found["y"].dtype == other
    np.testing.assert_array_equal(
        run(func, {"x": bits})["y"], run_machine_code(func, {"x": bits})["y"]
    )


def test_pads_and_constants_are_numbers_not_bits() -> None:
    x = te.placeholder((3,), "bfloat16", "x")
    y = te.compute((5,), lambda i: x.padded(1.5)[i - 1].astype("float32"), "y")
    z = te.compute((5,), lambda i: te.select(eq(i, 2), FloatImm(-2.0, "bfloat16"), x[0]), "z")
    given = {"x": bfloat16_bits([3.0, 5.0, 7.0])}
    found = te.evaluate_tensors([y, z], given)
    np.testing.assert_array_equal(found[0], [1.5, 3, 5, 7, 1.5])
    np.testing.assert_array_equal(bfloat16_values(found[1]), [3, 3, -2, 3, 3])
    for tensor, wanted in ((y, found[0]), (z, found[1])):
        func = te.create_prim_func([x], [tensor])
        for arrays in (run(func, given), run_machine_code(func, given)):
            np.testing.assert_array_equal(arrays[tensor.name], wanted)


@pytest.mark.parametrize(
    "formula", [lambda x: x + x, lambda x: x < x, te.exp, lambda x: te.maximum(x, x)]
)
def test_nothing_is_computed_of_it(formula: Callable[[Expr], Expr]) -> None:
    x: Expr = Load(Buffer("x", (4,), "bfloat16"), (Var("i"),))
    with pytest.raises(ExpressionError, match="bfloat16; convert with astype"):
        formula(x)
