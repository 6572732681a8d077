"""LOADs and products pass instructions that wait for space in a full queue."""

import numpy as np
import pytest

from daedal.compiler.link.ordering import past_full_queues as module
from daedal.compiler.link.ordering.past_full_queues import past_full_queues
from daedal.compiler.link.placement.hazards import hazards
from daedal.compiler.link.placement.placed import PlacedInstruction, PlacedRows
from daedal.isa.instruction import Instruction
from daedal.isa.scratchpad import Memory
from daedal.isa.table import LoadMemory, Opcode, Unit
from tests.compiler.link.placement.test_hazards import stream
from tests.support.placed_layers import TINY, load, multiply, program_of

SPACE = TINY.units.queue_depth + 1
"""Instructions that wait in a queue, and in its unit."""
STEPS = 2_000
"""Of products that the ALU waits for."""


def add(row: int) -> PlacedInstruction:
    """An instruction of the ALU that reads and writes an accumulator."""
    rows = PlacedRows(Memory.ACC, row, ((0, 1),), reads=True, writes=True)
    return PlacedInstruction(Instruction.of(Opcode.ALU), 0, (rows,))


def tiles(num_sums: int, weights: int = 4, acc: int = 0) -> list[PlacedInstruction]:
    """Products, sums of these, weights of the next tile in row `weights`, and products with them in
    row `acc` of the accumulators."""
    products = multiply((Memory.WGT, 0, 4), steps=STEPS)
    following = multiply((Memory.WGT, weights, 4), steps=STEPS)
    rows = PlacedRows(Memory.ACC, acc, ((0, 1),), reads=False, writes=True)
    return [
        products,
        *(add(0) for _ in range(num_sums)),
        load(LoadMemory.WGT, weights, 4),
        following._replace(rows=(following.rows[0], rows)),
    ]


def moved(items: list[PlacedInstruction]) -> tuple[list[PlacedInstruction], float]:
    """The items in their new order, and the gain."""
    found, gain = past_full_queues(program_of(items))
    return found.items, gain


def test_a_load_passes_what_waits_for_space() -> None:
    items = tiles(SPACE + 4)
    found, gain = moved(items)
    assert 0 < gain < 1
    assert found == [*items[: 1 + SPACE], items[-2], *items[1 + SPACE : -2], items[-1]]


def test_products_pass_it_too() -> None:
    items = tiles(SPACE + 4, acc=8)
    found, gain = moved(items)
    assert 0 < gain < 1
    assert found == [*items[: 1 + SPACE], *items[-2:], *items[1 + SPACE : -2]]


def test_a_load_stays_while_there_is_space() -> None:
    items = tiles(SPACE)
    assert moved(items) == (items, 0.0)


def test_a_load_stays_behind_readers_of_its_rows() -> None:
    items = tiles(SPACE + 4)
    reader = PlacedRows(Memory.WGT, 4, ((0, 1),), reads=True, writes=False)
    items[-3] = items[-3]._replace(rows=(*items[-3].rows, reader))
    assert moved(items) == (items, 0.0)


@pytest.mark.parametrize("how", ["", "plain", "checked"])
def test_conflicts_keep_their_order(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    if how:
        monkeypatch.setattr(module, "_hand_out", getattr(module._hand_out, how))
    count = 0
    for _ in range(3):
        items = stream(rng, 80)
        found, _ = moved(items)
        places = {id(item): place for place, item in enumerate(found)}
        assert places.keys() == set(map(id, items)) and len(found) == len(items)
        for unit in Unit:
            ours = [item for item in items if item.unit is unit]
            assert [item for item in found if item.unit is unit] == ours
        for item, needed in zip(items, hazards(program_of(items)).tolist(), strict=True):
            for other in needed:
                assert other < 0 or places[id(items[other])] < places[id(item)]
        count += found != items
    assert count
