"""Blocks and their neighbours: who reads whom, what can be inlined, which part has to run."""

import pytest

from daedal.common.errors import ScheduleError
from daedal.compiler.schedule import Schedule
from daedal.compiler.schedule.nest import solve_ranges
from daedal.compiler.tir.expr import Axis, Buffer, Expr, IntImm, Load, Var
from daedal.compiler.tir.region import Region, make_block
from daedal.compiler.tir.stmt import (
    Allocate,
    Allocation,
    BlockRealize,
    BufferStore,
    For,
    PrimFunc,
    Range,
    Seq,
    Stmt,
)

X, Y = Buffer("x", (8,), "int32"), Buffer("y", (8,), "int32")
S, T = Buffer("s", (8,), "int32"), Buffer("t", (8, 1), "int32")


def copied(target: Buffer, source: Buffer) -> Stmt:
    """``target[v] = source[v]``, with a second index of 0 where there is one."""
    var, axis = Var("i"), Axis("v", extent=8)

    def at(buffer: Buffer) -> tuple[Expr, ...]:
        return (axis, IntImm(0))[: len(buffer.shape)]

    store = BufferStore(target, at(target), Load(source, at(source)))
    return For(var, 8, BlockRealize((var,), make_block(target.name, (axis,), store)))


def chain() -> Schedule:
    """x -> s -> t -> y."""
    whole = [
        Allocation(buffer, tuple(Range(IntImm(0), n) for n in buffer.shape)) for buffer in (S, T)
    ]
    body = Allocate(tuple(whole), Seq((copied(S, X), copied(T, S), copied(Y, T))))
    return Schedule(PrimFunc("f", (X, Y), body))


def test_neighbours_are_those_that_share_a_tensor() -> None:
    schedule = chain()
    s, t, y = (schedule.get_block(name) for name in "sty")
    assert [block.name for block in schedule.get_producers(y)] == ["t"]
    assert [block.name for block in schedule.get_producers(t)] == ["s"]
    assert schedule.get_producers(s) == []
    assert [block.name for block in schedule.get_consumers(s)] == ["t"]
    assert schedule.get_consumers(y) == []


def test_only_a_block_that_stores_at_its_own_variables_is_inlined() -> None:
    schedule = chain()
    schedule.compute_inline(schedule.get_block("s"))
    with pytest.raises(ScheduleError, match="that stores at its own variables; 't' is none"):
        schedule.compute_inline(schedule.get_block("t"))


V = Axis("v", extent=8)


@pytest.mark.parametrize(
    ("touched", "needed", "found"),
    [
        (Range(V, 1), Range(IntImm(2), 3), (2, 3)),
        (Range(V * 2, 2), Range(IntImm(2), 4), (1, 2)),
        (Range(V * 2, 2), Range(IntImm(3), 4), (1, 3)),
        (Range(V * 2 + 4, 2), Range(IntImm(6), 2), (1, 1)),
        # Rows that overlap, rows apart from each other, and what is no variable of the block.
        (Range(V, 3), Range(IntImm(2), 3), None),
        (Range(V * 2, 1), Range(IntImm(2), 4), None),
        (Range(Var("i"), 1), Range(IntImm(2), 4), None),
        (Range(IntImm(3), 1), Range(IntImm(2), 4), None),
    ],
)
def test_the_part_of_a_block_that_has_to_run(
    touched: Range, needed: Range, found: tuple[int, int] | None
) -> None:
    block = make_block("b", (V,), BufferStore(Y, (V,), Load(X, (V,))))
    ranges = solve_ranges(block, Region(Y, (touched,)), Region(Y, (needed,)))
    assert set(ranges) == (set() if found is None else {V})
    if found is not None:
        first = ranges[V].min
        assert isinstance(first, IntImm) and (first.value, ranges[V].extent) == found


def test_choices_without_a_seed_are_those_of_seed_0() -> None:
    given = Schedule(chain().func, seed=0)
    assert chain().rng.integers(1 << 60) == given.rng.integers(1 << 60)
