"""Factored reductions compute the same, whatever they combine and whichever loop is taken."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from daedal.common.errors import ScheduleError
from daedal.compiler import te
from daedal.compiler.schedule import LoopRef, Schedule
from daedal.compiler.schedule.edit import map_stmt
from daedal.compiler.tir.expr import Axis, Expr, IntImm
from daedal.compiler.tir.stmt import BlockRealize, BufferStore, Stmt
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


def test_a_reduction_over_one_loop_becomes_a_copy_of_its_terms() -> None:
    a = te.placeholder((4, 3), "int32", "a")
    k = te.reduce_axis(3, "k")
    y = te.compute((4,), lambda i: te.sum(a[i, k] * 2, k), "y")
    schedule = Schedule(te.create_prim_func([a], [y], "f"))
    block = schedule.get_block("y")
    schedule.rfactor(block, schedule.get_loops(block)[1])
    assert "    y_rf[vk, vi] = a[vi, vk] * 2\n" in str(schedule)


def test_starting_elsewhere_is_refused() -> None:
    """A start other than the neutral element would count once per partial result."""
    program = reduced("sum")
    func = te.create_prim_func(*program, "f")

    def from_one(stmt: Stmt) -> Stmt | None:
        if not isinstance(stmt, BlockRealize):
            return None
        init = stmt.block.init
        assert isinstance(init, BufferStore)
        one = replace(init, value=IntImm(1, "int8"))
        return replace(stmt, block=replace(stmt.block, init=one))

    schedule = Schedule(replace(func, body=map_stmt(func.body, from_one)))
    block = schedule.get_block("y")
    with pytest.raises(ScheduleError) as caught:
        schedule.rfactor(block, schedule.get_loops(block)[2])
    assert str(caught.value) == (
        "rfactor needs a block that reduces by sum, product, minimum, maximum or any from their "
        "neutral element; 'y' does not; use it before decompose_reduction and blockize"
    )


def test_a_predicate_on_both_is_refused() -> None:
    func = te.create_prim_func(*reduced("sum"), "f")

    def narrowed(stmt: Stmt) -> Stmt | None:
        if not isinstance(stmt, BlockRealize):
            return None
        i, _, k, _ = stmt.values
        return replace(stmt, predicate=i + k < 100)

    schedule = Schedule(replace(func, body=map_stmt(func.body, narrowed)))
    block = schedule.get_block("y")
    with pytest.raises(ScheduleError) as caught:
        schedule.rfactor(block, schedule.get_loops(block)[2])
    assert str(caught.value) == (
        "rfactor needs predicates on loops of the reduction or on others, not on both as in 'y'"
    )
