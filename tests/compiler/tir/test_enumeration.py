"""Bindings that fixed loops move: the box must stay within the domain in each iteration."""

import pytest

from daedal.compiler.tir.condition import all_of
from daedal.compiler.tir.enumeration import MAX_ENUMERATED, check_points
from daedal.compiler.tir.errors import InvalidIRError
from daedal.compiler.tir.expr import Axis, Buffer, Expr, IntImm, Load, Var
from daedal.compiler.tir.stmt import Block, BlockRealize, BufferStore

FIXED, RUNNING = Var("f"), Var("i")
EXTENTS = {FIXED: 2, RUNNING: 8}
STEPS = Var("s")
X, Y = (Buffer(name, (32,), "int32") for name in "xy")


def moved(extent: int, shift: int) -> BlockRealize:
    """A block with one variable of that extent, moved by 8 in each iteration of the fixed loop."""
    v = Axis("v", extent=extent)
    block = Block("y", (v,), (), (), BufferStore(Y, (v,), Load(X, (v,))))
    return BlockRealize((FIXED * 8 + RUNNING + shift,), block)


@pytest.mark.parametrize(
    ("extent", "shift", "inside"), [(16, 0, True), (15, 0, False), (16, -1, False), (20, -8, False)]
)
def test_fixed_loops_move_the_box_within_the_domain(extent: int, shift: int, inside: bool) -> None:
    realize = moved(extent, shift)
    if inside:
        check_points(realize, [0], [], {RUNNING: 8}, EXTENTS)
        return
    with pytest.raises(InvalidIRError, match="must stay within their domains, not v = "):
        check_points(realize, [0], [], {RUNNING: 8}, EXTENTS)


def clipped(shift: int, first: Expr) -> tuple[BlockRealize, list[Expr], dict[Var, int]]:
    """Rows of three elements, more than a condition lets in, moved by two rows in each of more
    iterations of the fixed loop than may be listed; all, and the extents of its variables."""
    extents = {FIXED: MAX_ENUMERATED, STEPS: 2, RUNNING: 4}
    own = STEPS * 4 + RUNNING
    rows, columns = Axis("r", extent=2 * MAX_ENUMERATED), Axis("c", extent=3)
    block = Block("y", (rows, columns), (), (), BufferStore(Y, (rows,), Load(X, (rows,))))
    conditions = [own + first < 6]
    values = (FIXED * 2 + own // 3 + shift, own % 3)
    return BlockRealize(values, block, all_of(conditions)), conditions, extents


def test_conditions_on_running_loops_are_checked_for_one_iteration() -> None:
    realize, conditions, extents = clipped(0, IntImm(0))
    check_points(realize, [0, 1], conditions, {STEPS: 2, RUNNING: 4}, extents)


@pytest.mark.parametrize(("shift", "first"), [(0, IntImm(-1)), (1, IntImm(0)), (-1, IntImm(0))])
def test_boxes_of_many_iterations_that_are_none(shift: int, first: Expr) -> None:
    """Half a row too much; a row beyond the last one; a row before the first one."""
    realize, conditions, extents = clipped(shift, first)
    with pytest.raises(InvalidIRError):
        check_points(realize, [0, 1], conditions, {STEPS: 2, RUNNING: 4}, extents)


def test_conditions_on_fixed_loops_need_every_iteration() -> None:
    realize, conditions, extents = clipped(0, FIXED)
    with pytest.raises(InvalidIRError, match="too entangled to check"):
        check_points(realize, [0, 1], conditions, {STEPS: 2, RUNNING: 4}, extents)
