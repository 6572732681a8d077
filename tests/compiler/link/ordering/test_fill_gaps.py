"""LOADs of constants that fill the time without a LOAD: what conflicts keeps its order."""

import pytest

from daedal.compiler.link.ordering.fill_gaps import PASSES, SHORTEST_GAP, fill_gaps
from daedal.compiler.link.placement.hazards import hazards
from daedal.compiler.link.placement.placed import PlacedInstruction
from daedal.isa.table import LoadMemory
from tests.support.placed_layers import TINY, layers, load, program_of

STEPS = 2 * SHORTEST_GAP
"""Of a layer's products: the next layer's LOAD waits for so many cycles."""


def filled(items: list[PlacedInstruction]) -> tuple[list[PlacedInstruction], dict[int, int]]:
    """The items in their new order, and the place of each by its number."""
    found = fill_gaps(program_of(items)).items
    assert sorted(map(id, found)) == sorted(map(id, items))
    places = {id(item): place for place, item in enumerate(found)}
    return found, {number: places[id(item)] for number, item in enumerate(items)}


def test_weights_of_later_layers_go_before_a_load_that_waits() -> None:
    items = layers(4, row_step=4, steps=STEPS)
    found, places = filled(items)
    weights = {id(items[number]) for number in (1, 5, 9, 13)}
    assert all(places[number] < places[4] for number in (5, 9, 13))
    rest = [item for item in items if id(item) not in weights]
    assert [item for item in found if id(item) not in weights] == rest


def test_a_short_gap_stays() -> None:
    items = layers(4, row_step=4, steps=SHORTEST_GAP // 4)
    assert filled(items)[0] == items


def test_results_keep_their_place() -> None:
    """Each layer reads, as its weights, what another program has stored in the workspace."""
    items = layers(4, row_step=4, steps=STEPS)
    for number in range(1, len(items), 4):
        items[number] = load(LoadMemory.WGT, number - 1, 4, word=100 + number)
    assert filled(items)[0] == items


@pytest.mark.parametrize("stores", [False, True])
def test_nothing_is_loaded_while_stores_take_the_bus(stores: bool) -> None:
    items = layers(2, row_step=4, steps=0 if stores else STEPS)
    items[5] = load(LoadMemory.WGT, 4, 64)
    if stores:
        template = items[3].instruction.replace(cols=STEPS)
        items[3] = items[3]._replace(instruction=template)
    _, places = filled(items)
    assert (places[5] < places[4]) == (not stores)


def test_no_more_than_half_a_queue() -> None:
    """Of one-word LOADs that would all fit."""
    half = TINY.units.queue_depth // 2
    items = layers(2, row_step=4, steps=4 * STEPS)
    more = [load(LoadMemory.WGT, 8 + n, 1) for n in range((PASSES + 2) * half)]
    _, places = filled([*items[:6], *more, *items[6:]])
    early = [number for number in range(6, 6 + len(more)) if places[number] < places[4]]
    # The next gap begins with the next pass.
    assert 0 < len(early) <= PASSES * half


def test_no_more_than_fits_a_gap() -> None:
    """Of LOADs that take half a gap each: the waiting LOAD would wait for a second one."""
    half_a_gap = 28
    items = layers(2, row_step=4, steps=SHORTEST_GAP)
    more = [load(LoadMemory.WGT, 8 + half_a_gap * n, half_a_gap) for n in range(3)]
    _, places = filled([*items[:6], *more, *items[6:]])
    assert [number for number in range(5, 9) if places[number] < places[4]] == [5, 6]


def test_weights_wait_for_their_rows() -> None:
    """All layers have the same rows."""
    items = layers(4, row_step=0, steps=STEPS)
    _, places = filled(items)
    for number in range(4, 16, 4):
        assert places[number + 1] > places[number - 2]


def test_loads_into_the_same_rows_keep_their_order() -> None:
    """The last layer's weights come in three LOADs. The third one overwrites a row of each other;
    its other row is of a LOAD that may move far."""
    items = layers(4, row_step=4, steps=STEPS)
    items[13:14] = [
        load(LoadMemory.WGT, 12, 4),
        load(LoadMemory.WGT, 16, 1),
        load(LoadMemory.WGT, 15, 2),
    ]
    _, places = filled(items)
    assert places[13] < places[15] and places[14] < places[15] < places[16]


def test_a_load_stays_behind_one_that_it_overwrites() -> None:
    """The last layer's weights come in two LOADs. The first one also waits for rows of the third
    layer; nothing else reads the row that the second one overwrites."""
    items = layers(4, row_step=4, steps=STEPS)
    items[13:14] = [load(LoadMemory.WGT, 8, 8), load(LoadMemory.WGT, 12, 1)]
    _, places = filled(items)
    assert places[10] < places[13] < places[14]


@pytest.mark.parametrize("row_step", [1, 3, 4])
def test_conflicts_keep_their_order(row_step: int) -> None:
    items = layers(12, row_step, steps=STEPS)
    _, places = filled(items)
    for number, needed in enumerate(hazards(program_of(items)).tolist()):
        assert all(other < 0 or places[other] < places[number] for other in needed)
