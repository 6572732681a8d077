"""Every step of the lowering computes what the function of blocks computes."""

from collections.abc import Callable

import numpy as np
import pytest

from daedal.compiler import te
from daedal.compiler.schedule import Schedule
from daedal.compiler.te import create_prim_func
from daedal.compiler.tir.interpreter import run
from daedal.compiler.tir.lower import lower
from daedal.compiler.tir.lower.blocks import lower_blocks
from daedal.compiler.tir.lower.padding import lower_padding
from daedal.compiler.tir.printer import func_text
from daedal.compiler.tir.stmt import PrimFunc
from tests.support.tensor_programs import conv2d, inputs_of, matmul, stencil

STEPS: list[Callable[[PrimFunc], PrimFunc]] = [
    lower_blocks,
    lambda func: lower_padding(lower_blocks(func)),
    lower,
]


def tiled_matmul() -> PrimFunc:
    """Tiles that do not divide the loops, and a computation inside the tile of its reader."""
    func = create_prim_func(*matmul(rows=5, columns=7, depth=3))
    schedule = Schedule(func)
    rows, columns = schedule.get_loops(schedule.get_block("d"))
    outer, inner = schedule.split(rows, [None, 2])
    wide, narrow = schedule.split(columns, [None, 4])
    schedule.reorder(outer, wide, inner, narrow)
    schedule.compute_at(schedule.get_block("c"), wide)
    schedule.vectorize(narrow)
    return schedule.func


FUNCTIONS = {
    "matmul": lambda: create_prim_func(*matmul()),
    "tiled": tiled_matmul,
    "conv2d": lambda: create_prim_func(*conv2d(height=3, width=2, block=2)),
    "stencil": lambda: create_prim_func(*stencil()),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_step_changes_no_result(name: str, step: Callable[[PrimFunc], PrimFunc]) -> None:
    func = FUNCTIONS[name]()
    inputs = inputs_of((list(func.inputs), []), np.random.default_rng(3))
    wanted, found = run(func, inputs), run(step(func), inputs)
    assert found.keys() == wanted.keys()
    for key, array in wanted.items():
        np.testing.assert_array_equal(found[key], array)


def test_an_allocation_is_as_large_as_its_window() -> None:
    text = func_text(lower(tiled_matmul()))
    assert "alloc c: int32[2, 4]" in text
    assert "block" not in text


def test_a_read_inside_is_not_compared() -> None:
    x = te.placeholder((4,), "int32", "x")
    y = te.compute((4,), lambda i: x.padded(7)[i - 1], "y")
    text = func_text(lower(create_prim_func([x], [y])))
    assert text.splitlines()[-1].strip() == "y[i] = select(i - 1 >= 0, x[max(i - 1, 0)], 7)"
