"""Sums of integers begin at what is added to them."""

from collections.abc import Callable

import numpy as np
import pytest

from daedal.compiler import te
from daedal.compiler.cpu.kernel import Kernel, kernel_function
from daedal.compiler.ops.cpu.reuse import NARROW, WIDEST, Registers
from daedal.compiler.tir.expr import Expr, IntImm, Load
from daedal.compiler.tir.lower import lower
from daedal.compiler.tir.stmt import Allocate, BufferStore, For, Seq, Stmt
from tests.support.machine_code import run_machine_code

Epilogue = Callable[[Expr, Expr], Expr]
ROWS, COLUMNS, DEPTH = 13, 40, 9


def kernel_of(epilogue: Epilogue, dtype: str = "int32") -> Kernel:
    """A matrix product, and a function of each sum and a number of its column."""
    a = te.placeholder((ROWS, DEPTH), "int8", "x0")
    b = te.placeholder((DEPTH, COLUMNS), "int8", "x1")
    c = te.placeholder((COLUMNS,), dtype, "x2")
    k = te.reduce_axis(DEPTH, "k")
    shape = (ROWS, COLUMNS)
    sums = te.compute(
        shape, lambda i, j: te.sum(a[i, k].astype(dtype) * b[k, j].astype(dtype), k), "r"
    )
    result = te.compute(shape, lambda i, j: epilogue(sums[i, j], c[j]), "y")
    return Kernel((a, b, c), result, sums, (a, b, c))


def first_values(stmt: Stmt) -> list[Expr]:
    """What is stored before a reduction."""
    match stmt:
        case Seq(body):
            return [item for part in body for item in first_values(part)]
        case For(_, _, body) | Allocate(_, body):
            return first_values(body)
        case BufferStore(buffer, _, value) if buffer.name == "r":
            return [value] if isinstance(value, IntImm | Load) else []
    return []


@pytest.mark.parametrize("registers", [NARROW, WIDEST], ids=["AVX2", "AVX-512"])
@pytest.mark.parametrize(
    ("epilogue", "reference", "begins"),
    [
        (lambda r, c: te.maximum(r + c, 0), lambda r, c: np.maximum(r + c, 0), True),
        (
            lambda r, c: te.select(r + c < 0, -5, r + c),
            lambda r, c: np.where(r + c < 0, -5, r + c),
            True,
        ),
        (
            lambda r, c: te.select(r < 0, -5, r + c),
            lambda r, c: np.where(r < 0, -5, r + c),
            False,
        ),
        (lambda r, c: r * c, lambda r, c: r * c, False),
    ],
)
def test_sums_begin_at_a_bias(
    epilogue: Epilogue, reference: Callable[..., object], registers: Registers, *, begins: bool
) -> None:
    func = kernel_function(kernel_of(epilogue), (), registers).func
    assert {isinstance(item, Load) for item in first_values(lower(func).body)} == {begins}
    rng = np.random.default_rng(0)
    shapes = (ROWS, DEPTH), (DEPTH, COLUMNS)
    a, b = (rng.integers(-9, 9, shape).astype(np.int8) for shape in shapes)
    c = rng.integers(-99, 99, COLUMNS).astype(np.int32)
    sums = a.astype(np.int32) @ b.astype(np.int32)
    found = run_machine_code(func, {"x0": a, "x1": b, "x2": c})["y"]
    np.testing.assert_array_equal(found, reference(sums, c))


def test_sums_of_floats_begin_at_0() -> None:
    """Their order decides how they are rounded."""
    func = kernel_function(kernel_of(lambda r, c: te.maximum(r + c, 0), "float32"), (), WIDEST).func
    assert not any(isinstance(item, Load) for item in first_values(lower(func).body))
