"""Register tiles that do not divide their axes."""

import numpy as np
import pytest

from daedal.compiler import te
from daedal.compiler.cpu.kernel import Kernel, kernel_function
from daedal.compiler.ops.cpu.reuse import NARROW, WIDEST, Registers, Tiles, choose_tiles
from daedal.compiler.tir.expr import Reduce
from tests.support.machine_code import run_machine_code


def product(rows: int, columns: int, depth: int) -> Kernel:
    """A matrix product and a sum with a row of numbers."""
    a = te.placeholder((rows, depth), "float32", "x0")
    b = te.placeholder((depth, columns), "float32", "x1")
    c = te.placeholder((columns,), "float32", "x2")
    k = te.reduce_axis(depth, "k")
    sums = te.compute((rows, columns), lambda i, j: te.sum(a[i, k] * b[k, j], k), "r")
    result = te.compute((rows, columns), lambda i, j: sums[i, j] + c[j], "y")
    return Kernel((a, b, c), result, sums, (a, b, c))


def tiles_of(kernel: Kernel, registers: Registers) -> Tiles | None:
    assert kernel.reduction is not None
    formula = kernel.reduction.value
    assert isinstance(formula, Reduce)
    return choose_tiles(formula.value, kernel.reduction.axes, 4, (), registers)


@pytest.mark.parametrize("registers", [NARROW, WIDEST], ids=["AVX2", "AVX-512"])
@pytest.mark.parametrize(
    ("rows", "columns"), [(7, 61), (13, 8), (1, 19), (197, 40), (2, 3), (5, 33), (12, 64)]
)
def test_all_shapes_have_the_right_sums(rows: int, columns: int, registers: Registers) -> None:
    kernel = product(rows, columns, 11)
    func = kernel_function(kernel, (), registers).func
    rng = np.random.default_rng(rows)
    arrays = {
        item.name: rng.integers(-9, 9, item.shape).astype(np.float32) for item in kernel.inputs
    }
    found = run_machine_code(func, arrays)["y"]
    np.testing.assert_array_equal(found, arrays["x0"] @ arrays["x1"] + arrays["x2"])


@pytest.mark.parametrize("registers", [NARROW, WIDEST], ids=["AVX2", "AVX-512"])
def test_odd_shapes_keep_full_vectors(registers: Registers) -> None:
    """509 is prime: without tiles that overlap, it would have one lane, and one row."""
    tiles = tiles_of(product(509, 509, 509), registers)
    assert tiles is not None
    assert tiles.lanes % (registers.vector_bytes // 4) == 0
    (row,) = tiles.rows
    assert row[1] >= 4 and tiles.outer == (1, 0)


def test_accumulators_fit_the_registers() -> None:
    for registers in (NARROW, WIDEST):
        for rows in (1, 4, 7, 30, 56, 197):
            tiles = tiles_of(product(rows, 64, 16), registers)
            assert tiles is not None
            vectors = tiles.lanes * 4 // registers.vector_bytes
            count = np.prod([extent for _, extent in tiles.rows], dtype=int)
            assert count * vectors + vectors < registers.count
