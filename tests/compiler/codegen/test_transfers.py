"""LOAD and STORE instructions of tensorized copies."""

import pytest

from daedal.compiler import te
from daedal.compiler.codegen.accelerator import emit_segment
from daedal.compiler.codegen.intrinsics import accelerator_intrinsics
from daedal.compiler.codegen.printer import segment_text
from daedal.compiler.schedule.schedule import Schedule
from daedal.isa.variant import load_variant

TINY = load_variant("tiny")


def loaded(stride: int, factors: list[int] | None = None) -> str:
    """The text of a segment that loads every `stride`th of some rows; their loop is split."""
    a = te.placeholder((12, 1, 8), "int32", "a")
    x = te.compute((4, 1, 8), lambda i, b, o: a[i * stride + 1, b, o], "x")
    y = te.compute(x.shape, lambda i, b, o: x[i, b, o], "y")
    sch = Schedule(te.create_prim_func([a], [y]), accelerator_intrinsics(TINY))
    load = sch.get_block("x")
    sch.set_scope(load, 0, "acc")
    loop = sch.get_loops(load)[0]
    sch.tensorize(loop if factors is None else sch.split(loop, factors)[0], "load")
    sch.tensorize(sch.get_loops(sch.get_block("y"))[0], "store")
    return segment_text(emit_segment(sch.func, TINY))


@pytest.mark.parametrize("stride", [1, 3])
@pytest.mark.parametrize("factors", [[1, 4], [4, 1]])
def test_a_loop_of_one_iteration_changes_nothing(stride, factors):
    """As tiles leave it behind that are as large as the whole map."""
    assert loaded(stride, factors) == loaded(stride)
