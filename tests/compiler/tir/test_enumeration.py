"""Bindings that fixed loops move: the box must stay within the domain in each iteration."""

import pytest

from daedal.compiler.tir.enumeration import check_points
from daedal.compiler.tir.errors import InvalidIRError
from daedal.compiler.tir.expr import Axis, Buffer, Load, Var
from daedal.compiler.tir.stmt import Block, BlockRealize, BufferStore

FIXED, RUNNING = Var("f"), Var("i")
EXTENTS = {FIXED: 2, RUNNING: 8}
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
