"""Instructions that are counted without emitting them, of layers with and without memory views."""

import pytest

from daedal.compiler import te
from daedal.compiler.codegen.accelerator import emit_segment
from daedal.compiler.codegen.instruction_count import count_instructions
from daedal.compiler.codegen.intrinsics import accelerator_intrinsics
from daedal.compiler.codegen.memory_view import MemoryView
from daedal.compiler.schedule.schedule import Schedule
from daedal.isa.variant import load_variant

TINY = load_variant("tiny")


@pytest.mark.parametrize(
    ("views", "count"),
    [
        (None, 2),
        ({"a": MemoryView((96, 32, 16), 1 << 10)}, 2),
        ({"a": MemoryView((200, 50, 16), 1 << 10)}, 3),
        ({"a": MemoryView((200, 50, 16), 1 << 10), "y": MemoryView((300, 80, 16), 1 << 11)}, 4),
    ],
    ids=["dense", "one stride", "three strides", "three strides on both sides"],
)
def test_more_strides_take_more_transfers(views: dict[str, MemoryView] | None, count: int) -> None:
    """A LOAD or STORE has two strides besides that of the elements of a row."""
    a = te.placeholder((2, 3, 2, 1, 8), "int32", "a")
    x = te.compute(a.shape, lambda *i: a[i], "x")
    y = te.compute(a.shape, lambda *i: x[i], "y")
    sch = Schedule(te.create_prim_func([a], [y]), accelerator_intrinsics(TINY))
    sch.set_scope(sch.get_block("x"), 0, "acc")
    for name, copy in (("x", "load"), ("y", "store")):
        sch.tensorize(sch.get_loops(sch.get_block(name))[0], copy)
    emitted = emit_segment(sch.func, TINY, views=views).instructions
    assert count_instructions(sch.func, TINY, views) == len(emitted) == count
