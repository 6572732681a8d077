"""The rotating allocator of scratchpad rows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daedal.common.errors import ScheduleError
from daedal.compiler.codegen.segment import Instance
from daedal.compiler.link.placement.rows import DeclaredRows, RowAllocator
from daedal.isa.scratchpad import Memory, Scratchpad


def _pad(depth: int) -> Scratchpad:
    return Scratchpad(Memory.INP, (1, 8), 8, 8, depth)


def _instance(rows: int) -> Instance:
    return Instance("tile", Memory.INP, rows)


def test_consecutive_tiles_alternate_where_two_fit():
    allocator = RowAllocator(_pad(16))
    places = []
    for _ in range(4):
        tile = _instance(8)
        places.append(allocator.place(tile, "layer"))
        allocator.free(tile)
    assert places == [0, 8, 0, 8]


def test_halves_alternate_for_small_tiles_too():
    allocator = RowAllocator(_pad(16), halves=True)
    places = []
    for _ in range(5):
        tile = _instance(3)
        places.append(allocator.place(tile, "layer"))
        allocator.free(tile)
    assert places == [0, 8, 3, 11, 0]


def test_what_lasts_gets_the_last_rows():
    allocator = RowAllocator(_pad(16))
    assert allocator.place(_instance(3), "layer", lasting=True) == 13
    assert allocator.place(_instance(2), "layer") == 0
    assert allocator.place(_instance(4), "layer", lasting=True, odd=False) == 8
    assert allocator.place(_instance(1), "layer", lasting=True) == 12
    assert allocator.place(_instance(6), "layer", lasting=True) == 2
    with pytest.raises(ScheduleError, match=r"must fit scratchpad 'inp'"):
        allocator.place(_instance(1), "layer", lasting=True)


def test_tiles_take_turns_between_two_places():
    allocator = RowAllocator(_pad(16), halves=True)
    allocator.in_turns = True
    places = []
    for _ in range(4):
        tile = _instance(3)
        places.append(allocator.place(tile, "layer"))
        allocator.free(tile)
    assert places == [0, 8, 0, 8]


def test_an_interleaved_layer_gets_the_half_that_the_other_one_used_last():
    allocator = RowAllocator(_pad(16), halves=True)
    halves = []
    for name in ("conv", "pool", "conv", "conv", "pool", "pool", "conv"):
        tile = Instance(name, Memory.INP, 3)
        row = allocator.place(tile, "layer", interleaved=name == "pool")
        halves.append((name, row // 8))
        allocator.free(tile)
    assert [half for name, half in halves if name == "conv"] == [0, 1, 0, 1]
    assert [half for name, half in halves if name == "pool"] == [0, 0, 0]


def test_a_half_counts_more_than_an_odd_row():
    allocator = RowAllocator(_pad(16), halves=True)
    assert allocator.place(Instance("a", Memory.INP, 4), "layer", half=1) == 8
    assert allocator.place(Instance("b", Memory.INP, 4), "layer", half=1, odd=True) == 12
    assert allocator.place(Instance("c", Memory.INP, 4), "layer", odd=True) == 1


def test_more_than_a_half_is_placed_over_both():
    allocator = RowAllocator(_pad(16), halves=True)
    assert allocator.place(_instance(12), "layer") == 0


def test_no_room_is_an_error_with_numbers():
    allocator = RowAllocator(_pad(16))
    allocator.place(_instance(10), "conv1")
    with pytest.raises(
        ScheduleError,
        match=r"scratchpad 'inp': buffer 'tile' of conv1 needs 80 bytes, and 48 of 128 are free",
    ):
        allocator.place(_instance(10), "conv1")


@given(st.lists(st.tuples(st.integers(1, 12), st.integers(0, 3)), max_size=40), st.booleans())
def test_live_instances_never_overlap(steps, halves):
    allocator = RowAllocator(_pad(64), halves=halves)
    live: list[tuple[Instance, int]] = []
    for rows, keep in steps:
        tile = _instance(rows)
        row = allocator.place(tile, "layer")
        assert row >= 0 and row + rows <= 64
        assert all(row + rows <= other or other + t.rows <= row for t, other in live)
        live.append((tile, row))
        while len(live) > keep:
            allocator.free(live.pop(0)[0])
    assert allocator.high_water_rows <= 64


def test_the_most_rows_in_use_at_once():
    """Those of a layer that is begun anew do not count."""
    allocator, kept, tile = RowAllocator(_pad(16)), _instance(3), _instance(2)
    counted = [allocator.high_water_rows]
    allocator.place(tile, "layer")
    allocator.place(_instance(4), "layer")
    allocator.free(tile)
    counted.append(allocator.high_water_rows)
    allocator.restart({})
    counted.append(allocator.high_water_rows)
    row = allocator.keep(kept)
    allocator.place(_instance(6), "next")
    counted.append(allocator.high_water_rows)
    allocator.restart({kept: row})
    counted.append(allocator.high_water_rows)
    allocator.place(tile, "next")
    allocator.end_layer()
    allocator.restart({})
    counted.append(allocator.high_water_rows)
    assert counted == [0, 6, 0, 9, 3, 5]


def test_without_renaming_a_buffer_keeps_its_places():
    allocator = DeclaredRows(_pad(16))
    places = []
    for name, thread, copies in 2 * [("x", (0,), 1), ("x", (1,), 1), ("w", (), 2), ("w", (), 2)]:
        places.append(allocator.place(Instance(name, Memory.INP, 4, thread, copies), "layer"))
    assert places == [0, 4, 8, 12, 0, 4, 8, 12]
    allocator.end_layer()
    assert allocator.place(_instance(16), "next") == 0


def test_without_renaming_a_buffer_must_not_grow():
    allocator = DeclaredRows(_pad(16))
    allocator.place(_instance(4), "layer")
    with pytest.raises(ScheduleError) as error:
        allocator.place(_instance(5), "layer")
    assert str(error.value) == (
        "a buffer without renaming needs its largest tile first: 'tile' of layer grows from 4 to 5 "
        "rows; use tiles that divide"
    )
