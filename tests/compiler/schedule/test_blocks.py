"""Blocks and their neighbours: who reads whom, what can be inlined, which part has to run."""

import pytest

from daedal.common.errors import ScheduleError
from daedal.compiler.schedule import Schedule
from daedal.compiler.schedule.nest import solve_ranges
from daedal.compiler.tir.expr import Axis, Buffer, IntImm, Load, Var
from daedal.compiler.tir.parser import parse_func
from daedal.compiler.tir.region import Region, make_block
from daedal.compiler.tir.stmt import BufferStore, Range
from tests.support.same_function import normal_text

CHAIN = """
func f(x: int32[8], out y: int32[8]):
    alloc s: int32[8]
    alloc t: int32[8, 1]
    for i in 8:
        block s(v:8 = i):
            s[v] = x[v]
    for i in 8:
        block t(v:8 = i):
            t[v, 0] = s[v]
    for i in 8:
        block y(v:8 = i):
            y[v] = t[v, 0]
"""


def chain() -> Schedule:
    """x -> s -> t -> y."""
    return Schedule(parse_func(CHAIN))


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
    assert str(schedule) == normal_text(
        """
        func f(x: int32[8], out y: int32[8]):
            alloc t: int32[8, 1]
            for i in 8:
                block t(v:8 = i):
                    t[v, 0] = x[v]
            for i in 8:
                block y(v:8 = i):
                    y[v] = t[v, 0]
        """
    )
    with pytest.raises(ScheduleError, match="that stores at its own variables; 't' is none"):
        schedule.compute_inline(schedule.get_block("t"))


V = Axis("v", extent=8)
X, Y = Buffer("x", (8,), "int32"), Buffer("y", (8,), "int32")


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
