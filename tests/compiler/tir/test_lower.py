"""Every step of the lowering as a pair of texts, and computing what the blocks compute."""

from collections.abc import Callable

import numpy as np
import pytest

from daedal.compiler.schedule import Schedule
from daedal.compiler.te import create_prim_func
from daedal.compiler.tir.interpreter import run
from daedal.compiler.tir.lower import lower
from daedal.compiler.tir.lower.blocks import lower_blocks
from daedal.compiler.tir.lower.padding import lower_padding
from daedal.compiler.tir.lower.windows import lower_windows
from daedal.compiler.tir.parser import parse_func
from daedal.compiler.tir.printer import func_text
from daedal.compiler.tir.stmt import PrimFunc
from daedal.compiler.tir.verify import verify
from tests.support.same_function import normal_text
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


def lowered(step: Callable[[PrimFunc], PrimFunc], text: str) -> str:
    """What a step makes of the function of a text."""
    return func_text(step(parse_func(text)))


# -- blocks ---------------------------------------------------------------------------------------


def test_a_reduction_begins_in_the_first_of_its_iterations() -> None:
    text = """
    func f(a: int32[3, 4], out c: int32[3]):
        for i in 3, k in 4:
            block c(vi:3 = i, +vk:4 = k):
                init:
                    c[vi] = 0
                c[vi] = c[vi] + a[vi, vk]
    """
    assert lowered(lower_blocks, text) == normal_text(
        """
        func f(a: int32[3, 4], out c: int32[3]):
            for i in 3, k in 4:
                if k == 0:
                    c[i] = 0
                c[i] = c[i] + a[i, k]
        """
    )


def test_a_reduction_that_is_split_begins_where_all_of_its_variables_are_0() -> None:
    """A variable that is always 0 is not compared."""
    text = """
    func f(a: int32[4, 3, 1], out c: int32[1]):
        for k_0 in 2, l in 3, k_1 in 2, m in 1:
            block c(vi:1 = 0, +vk:4 = k_0 * 2 + k_1, +vl:3 = l, +vm:1 = m):
                init:
                    c[vi] = 0
                c[vi] = c[vi] + a[vk, vl, vm]
    """
    assert lowered(lower_blocks, text) == normal_text(
        """
        func f(a: int32[4, 3, 1], out c: int32[1]):
            for k_0 in 2, l in 3, k_1 in 2, m in 1:
                if k_0 * 2 + k_1 == 0 & l == 0:
                    c[0] = 0
                c[0] = c[0] + a[k_0 * 2 + k_1, l, m]
        """
    )


def test_a_predicate_is_a_condition_where_the_loops_do_not_keep_it() -> None:
    text = """
    func f(x: int32[7], out y: int32[7]):
        for i in 2, j in 4 vectorize {note: 1}:
            block y(vi:7 = i * 4 + j) where i * 4 + j < 7 & i < 2 & j >= 0:
                y[vi] = x[vi]
    """
    assert lowered(lower_blocks, text) == normal_text(
        """
        func f(x: int32[7], out y: int32[7]):
            for i in 2, j in 4 vectorize {note: 1}:
                if i * 4 + j < 7:
                    y[i * 4 + j] = x[i * 4 + j]
        """
    )


def test_blocks_in_blocks() -> None:
    """Variables of a block are replaced down to the innermost store; indices are simplified."""
    text = """
    func f(x: int32[2, 8], out y: int32[2, 8]):
        for i in 2, j in 2:
            block outer(vi:2 = i, vj:2 = j) {intrin: copy}:
                for k in 4:
                    block y(vr:2 = vi, vc:8 = vj * 4 + k):
                        y[vr, vc] = x[vr, (vc + 8) // 8 * 8 - 8 + vc % 8]
    """
    assert lowered(lower_blocks, text) == normal_text(
        """
        func f(x: int32[2, 8], out y: int32[2, 8]):
            for i in 2, j in 2, k in 4:
                y[i, j * 4 + k] = x[i, j * 4 + k]
        """
    )


def test_an_init_with_a_block_of_its_own_and_a_predicate() -> None:
    text = """
    func f(a: int32[5, 4], out c: int32[5]):
        for i in 3, k in 2:
            block c(vi:3 = i, +vk:2 = k) where i < 3:
                init:
                    for j in 2:
                        block c_init(vj:5 = vi * 2 + j) where vi * 2 + j < 5:
                            c[vj] = 0
                for j in 2, l in 2:
                    block c_body(vj:5 = vi * 2 + j, +vl:4 = vk * 2 + l) where vi * 2 + j < 5:
                        c[vj] = c[vj] + a[vj, vl]
    """
    assert lowered(lower_blocks, text) == normal_text(
        """
        func f(a: int32[5, 4], out c: int32[5]):
            for i in 3, k in 2:
                if k == 0:
                    for j in 2:
                        if i * 2 + j < 5:
                            c[i * 2 + j] = 0
                for j in 2, l in 2:
                    if i * 2 + j < 5:
                        c[i * 2 + j] = c[i * 2 + j] + a[i * 2 + j, k * 2 + l]
        """
    )


# -- padding --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("read", "chosen"),
    [
        ("x.padded(7)[i - 1]", "select(i - 1 >= 0, x[max(i - 1, 0)], 7)"),
        ("x.padded(7)[i + 1]", "select(i + 1 < 4, x[min(i + 1, 3)], 7)"),
        ("x.padded(7)[i * 2 - 2]", "select(i * 2 - 2 >= 0 & max(i * 2 - 2, 0) < 4, "
         "x[min(max(i * 2 - 2, 0), 3)], 7)"),
        ("x.padded(7)[i]", "x[i]"),
        ("x[i]", "x[i]"),
        ("x.padded(7)[at[i]] + 1", "select(at[i] >= 0 & max(at[i], 0) < 4, "
         "x[min(max(at[i], 0), 3)], 7) + 1"),
        ("select(i < 2, x.padded(7)[i - 1], 0)", "select(i < 2, select(i - 1 >= 0, "
         "x[max(i - 1, 0)], 7), 0)"),
    ],
)  # fmt: skip
def test_only_bounds_that_the_loops_do_not_keep_are_compared(read: str, chosen: str) -> None:
    text = f"""
    func f(x: int32[4], at: int64[4], out y: int32[4]):
        for i in 4:
            y[i] = {read}
    """
    assert lowered(lower_padding, text) == normal_text(text.replace(read, chosen))


# -- windows --------------------------------------------------------------------------------------


def test_an_allocation_is_as_large_as_its_window() -> None:
    text = """
    func f(x: int32[8], out y: int32[6]):
        for i in 3:
            alloc t: int32[8] in acc window [i * 2:+3] {double_buffer: 2}
            for j in 3:
                t[i * 2 + j] = x[i * 2 + j]
            for j in 2:
                y[i * 2 + j] = t[i * 2 + j] * t[i * 2 + j + 1]
    """
    assert lowered(lower_windows, text) == normal_text(
        """
        func f(x: int32[8], out y: int32[6]):
            for i in 3:
                alloc t: int32[3] in acc {double_buffer: 2}
                for j in 3:
                    t[j] = x[i * 2 + j]
                for j in 2:
                    y[i * 2 + j] = t[j] * t[j + 1]
        """
    )


def test_windows_in_windows_and_indices_that_are_data() -> None:
    text = """
    func f(x: int32[8], at: int32[8], out y: int32[8]):
        alloc t: int32[10] window [1:+8]
        for i in 8:
            t[i + 1] = x[i]
        for i in 2:
            alloc u: int32[9] in local window [i * 4 + 1:+4]
            for j in 4:
                u[i * 4 + j + 1] = t[t[i * 4 + j + 1]]
            for j in 4:
                if i * 4 + j < 7:
                    y[i * 4 + j] = u[max(at[j], 1)]
    """
    assert lowered(lower_windows, text) == normal_text(
        """
        func f(x: int32[8], at: int32[8], out y: int32[8]):
            alloc t: int32[8]
            for i in 8:
                t[i] = x[i]
            for i in 2:
                alloc u: int32[4] in local
                for j in 4:
                    u[j] = t[t[i * 4 + j] - 1]
                for j in 4:
                    if i * 4 + j < 7:
                        y[i * 4 + j] = u[max(at[j], 1) - i * 4 - 1]
        """
    )


def test_all_steps() -> None:
    text = """
    func f(x: int32[5], out y: int32[5]):
        for i in 3:
            alloc t: int32[7] window [i * 2:+4]
            for j in 4:
                block t(vj:7 = i * 2 + j) where i * 2 + j < 7:
                    t[vj] = x.padded(-5)[vj - 1]
            for j in 2, k in 3:
                block y(vj:5 = i * 2 + j, +vk:3 = k) where i * 2 + j < 5:
                    init:
                        y[vj] = -2147483648
                    y[vj] = max(y[vj], t[vj + vk])
    """
    verify(parse_func(text))
    assert lowered(lower, text) == normal_text(
        """
        func f(x: int32[5], out y: int32[5]):
            for i in 3:
                alloc t: int32[4]
                for j in 4:
                    if i * 2 + j < 7:
                        t[j] = select(i * 2 + j - 1 >= 0 & max(i * 2 + j - 1, 0) < 5, x[min(max(i * 2 + j - 1, 0), 4)], -5)
                for j in 2, k in 3:
                    if i * 2 + j < 5:
                        if k == 0:
                            y[i * 2 + j] = -2147483648
                        y[i * 2 + j] = max(y[i * 2 + j], t[j + k])
        """  # noqa: E501 the text of one line
    )
