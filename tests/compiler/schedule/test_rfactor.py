"""Factored reductions compute the same, whatever they combine and whichever loop is taken."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from daedal.common.errors import ScheduleError
from daedal.compiler import te
from daedal.compiler.schedule import LoopRef, Schedule
from daedal.compiler.tir.expr import Axis, Expr
from daedal.compiler.tir.parser import parse_func
from tests.support.same_function import normal_text
from tests.support.tensor_programs import Program, assert_same, inputs_of, reference

Reduction = Callable[[Expr, Sequence[Axis]], Expr]

REDUCTIONS: dict[str, Reduction] = {
    "sum": te.sum,
    # Odd factors: a product of others soon is 0.
    "prod": lambda value, axes: te.prod(value * 2 + 1, axes),
    "max": te.max,
    "min": te.min,
    "any": lambda value, axes: te.any(value > 120, axes),
}


def reduced(op: str) -> Program:
    """``y[i, j]``: a reduction of ``x[i, k, j, l]`` over k (6) and l (4)."""
    x = te.placeholder((3, 6, 2, 4), "int8", "x")
    k, m = te.reduce_axis(6, "k"), te.reduce_axis(4, "l")
    make = REDUCTIONS[op]
    return [x], [te.compute((3, 2), lambda i, j: make(x[i, k, j, m], (k, m)), "y")]


def outer_k(s: Schedule, loops: list[LoopRef]) -> LoopRef:
    return s.split(loops[2], [3, None])[0]


def inner_k(s: Schedule, loops: list[LoopRef]) -> LoopRef:
    return s.split(loops[2], [None, 2])[1]


def whole_l(s: Schedule, loops: list[LoopRef]) -> LoopRef:
    s.reorder(loops[3], loops[0])
    return loops[3]


def fused_part(s: Schedule, loops: list[LoopRef]) -> LoopRef:
    """A part of both axes together: each of them is rebuilt from two loops."""
    return s.split(s.fuse(loops[2], loops[3]), [None, 8])[1]


def clipped(s: Schedule, loops: list[LoopRef]) -> LoopRef:
    """The last of two parts is cut short: what lies beyond adds nothing."""
    return s.split(loops[2], [None, 4])[0]


LOOPS = [outer_k, inner_k, whole_l, fused_part, clipped]


@pytest.mark.parametrize("op", REDUCTIONS)
@pytest.mark.parametrize("pick", LOOPS)
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_the_same_values(
    op: str, pick: Callable[[Schedule, list[LoopRef]], LoopRef], dim: int, rng: np.random.Generator
) -> None:
    program = reduced(op)
    arrays = inputs_of(program, rng)
    schedule = Schedule(te.create_prim_func(*program, "f"))
    block = schedule.get_block("y")
    loop = pick(schedule, schedule.get_loops(block))
    partial = schedule.rfactor(block, loop, dim)
    assert_same(schedule, arrays, reference(program, arrays))
    assert loop in schedule.get_loops(partial), "the loop now runs over partial results"
    schedule.vectorize(loop)


ROW_SUM = """
func f(x: int32[4, 6], out y: int32[4]):
    for i in 4, k_0 in 2, k_1 in 3:
        block y(vi:4 = i, +vk:6 = k_0 * 3 + k_1):
            init:
                y[vi] = 0
            y[vi] = y[vi] + x[vi, vk]
"""


def test_partial_results_are_summed_over_the_loop() -> None:
    schedule = Schedule(parse_func(ROW_SUM))
    block = schedule.get_block("y")
    schedule.rfactor(block, schedule.get_loops(block)[1], 1)
    assert str(schedule) == normal_text(
        """
        func f(x: int32[4, 6], out y: int32[4]):
            for i in 4:
                alloc y_rf: int32[4, 2] window [i:+1, 0:+2]
                for k_0 in 2, k_1 in 3:
                    block y_rf(vk_0:2 = k_0, vi:4 = i, +vk_1:3 = k_1):
                        init:
                            y_rf[vi, vk_0] = 0
                        y_rf[vi, vk_0] = y_rf[vi, vk_0] + x[vi, vk_0 * 3 + vk_1]
                for k_0 in 2:
                    block y(vi:4 = i, +vk_0:2 = k_0):
                        init:
                            y[vi] = 0
                        y[vi] = y[vi] + y_rf[vi, vk_0]
        """
    )


def test_a_reduction_over_one_loop_becomes_a_copy_of_its_terms() -> None:
    schedule = Schedule(
        parse_func(
            """
            func f(a: int32[4, 3], out y: int32[4]):
                for i in 4, k in 3:
                    block y(vi:4 = i, +vk:3 = k):
                        init:
                            y[vi] = 0
                        y[vi] = y[vi] + a[vi, vk] * 2
            """
        )
    )
    block = schedule.get_block("y")
    schedule.rfactor(block, schedule.get_loops(block)[1])
    assert str(schedule) == normal_text(
        """
        func f(a: int32[4, 3], out y: int32[4]):
            for i in 4:
                alloc y_rf: int32[3, 4] window [0:+3, i:+1]
                for k in 3:
                    block y_rf(vk:3 = k, vi:4 = i):
                        y_rf[vk, vi] = a[vi, vk] * 2
                for k in 3:
                    block y(vi:4 = i, +vk:3 = k):
                        init:
                            y[vi] = 0
                        y[vi] = y[vi] + y_rf[vk, vi]
        """
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        # A start other than the neutral element would count once per partial result.
        (
            ("y[vi] = 0", "y[vi] = 1"),
            "rfactor needs a block that reduces by sum, product, minimum, maximum or any from "
            "their neutral element; 'y' does not; use it before decompose_reduction and blockize",
        ),
        (
            ("k_0 * 3 + k_1):", "k_0 * 3 + k_1) where i + k_1 < 100:"),
            "rfactor needs predicates on loops of the reduction or on others, not on both as in "
            "'y'",
        ),
    ],
)
def test_what_cannot_be_factored_is_refused(change: tuple[str, str], reason: str) -> None:
    schedule = Schedule(parse_func(ROW_SUM.replace(*change)))
    block = schedule.get_block("y")
    with pytest.raises(ScheduleError) as caught:
        schedule.rfactor(block, schedule.get_loops(block)[2])
    assert str(caught.value) == reason
