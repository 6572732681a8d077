"""Loops that run at once, bound by schedules: what a GPU's grid allows."""

from collections.abc import Callable

import pytest

from daedal.common.errors import ScheduleError
from daedal.compiler import te
from daedal.compiler.schedule import LoopRef, Schedule
from tests.support.tensor_programs import stencil

GPU_SCOPES = frozenset({"global", "shared", "local"})


def scheduled(length: int = 34, width: int = 3) -> Schedule:
    """``p``, then ``q`` of three of its rows, then ``r`` of two rows of ``q``."""
    program = stencil(length=length, width=width)
    return Schedule(te.create_prim_func(*program, "f"), scopes=GPU_SCOPES)


def tiled(schedule: Schedule, rows: int = 8) -> tuple[LoopRef, LoopRef, LoopRef]:
    """The loops of ``r``: tiles of rows, rows, columns."""
    i, j = schedule.get_loops(schedule.get_block("r"))
    outer, inner = schedule.split(i, [None, rows])
    return outer, inner, j


def test_a_kernel_with_shared_and_local_memory() -> None:
    schedule = scheduled()
    outer, inner, j = tiled(schedule)
    p, q = schedule.get_block("p"), schedule.get_block("q")
    schedule.compute_at(q, j)
    schedule.compute_at(p, outer)
    schedule.set_scope(p, 0, "shared")
    schedule.set_scope(q, 0, "local")
    schedule.bind(outer, "block.x")
    schedule.bind(inner, "thread.x")
    schedule.bind(j, "thread.y")
    _, rows, columns = schedule.get_loops(p)
    part, _ = schedule.split(rows, [8, None])
    schedule.bind(part, "thread.x")
    schedule.bind(columns, "thread.y")
    text = str(schedule)
    assert "for i_0 in 4 block.x:" in text
    assert "alloc p: int32[34, 3] in shared window [i_0 * 8 - 1:+12, 0:+3]" in text
    assert "for i_1 in 8 thread.x, j in 3 thread.y:" in text
    assert "for i_0_1_ in 8 thread.x, i_1 in 2, j in 3 thread.y:" in text


def bind_twice(s: Schedule) -> None:
    outer, inner, _ = tiled(s)
    s.bind(outer, "thread.x")
    s.bind(inner, "thread.x")


def blocks_inside_threads(s: Schedule) -> None:
    outer, inner, _ = tiled(s)
    s.bind(outer, "thread.x")
    s.bind(inner, "block.x")


def two_extents(s: Schedule) -> None:
    outer, inner, _ = tiled(s)
    q = s.get_block("q")
    s.compute_at(q, outer)
    s.bind(outer, "block.x")
    s.bind(inner, "thread.x")
    s.bind(s.get_loops(q)[1], "thread.x")


def too_many_threads(s: Schedule) -> None:
    _, inner, j = tiled(s, 16)
    s.bind(inner, "thread.x")
    s.bind(j, "thread.y")


def reduction(s: Schedule) -> None:
    s.bind(s.get_loops(s.get_block("q"))[2], "thread.x")


def shared_per_thread(s: Schedule) -> None:
    outer, inner, _ = tiled(s)
    p = s.get_block("p")
    s.bind(outer, "block.x")
    s.bind(inner, "thread.x")
    s.compute_at(s.get_block("q"), inner)
    s.compute_at(p, inner)
    s.set_scope(p, 0, "shared")


def local_of_all(s: Schedule) -> None:
    outer, inner, _ = tiled(s)
    q = s.get_block("q")
    s.bind(outer, "block.x")
    s.compute_at(q, outer)
    s.set_scope(q, 0, "local")
    s.bind(inner, "thread.x")


REFUSED: list[tuple[Callable[[Schedule], None], str]] = [
    (
        bind_twice,
        "an axis may be bound once around a block; 'i_1' lies inside 'i_0', which is thread.x "
        "already",
    ),
    (
        blocks_inside_threads,
        "block axes must lie outside thread axes; 'i_1' (block.x) lies inside 'i_0' (thread.x); "
        "reorder them",
    ),
    (
        two_extents,
        "loops along thread.x within one kernel must have one extent, not 10 ('i') and 8 ('i_1'); "
        "split one of them",
    ),
    (
        reduction,
        "a thread.x loop must have independent iterations; 'k' is part of the reduction over 'vk' "
        "of block 'q'",
    ),
    (
        shared_per_thread,
        "a buffer in shared memory must be allocated outside thread loops; 'p' lies inside 'i_1' "
        "(thread.x)",
    ),
    (
        local_of_all,
        "a buffer in local memory must be allocated inside the thread loops that use it; 'q' lies "
        "outside 'i_1' (thread.x)",
    ),
]


@pytest.mark.parametrize(("calls", "message"), REFUSED, ids=[text[:40] for _, text in REFUSED])
def test_refused(calls: Callable[[Schedule], None], message: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        calls(scheduled())
    assert str(caught.value).endswith(f" would break the loop IR: {message}")


def test_no_more_threads_than_run_together() -> None:
    with pytest.raises(ScheduleError) as caught:
        too_many_threads(scheduled(width=65))
    assert str(caught.value) == (
        "bind would break the loop IR: a kernel may have at most 1024 threads per block, not 1040; "
        "split the loops that are bound to thread axes"
    )
    too_many_threads(scheduled(width=64))
