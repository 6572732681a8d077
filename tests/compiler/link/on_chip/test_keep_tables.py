"""Tables that stay on chip: no reader finds another table than before, and few are loaded again."""

import numpy as np
import pytest

from daedal.compiler.link.on_chip.keep_tables import keep_tables
from daedal.compiler.link.placement.placed import PlacedInstruction, PlacedRows
from daedal.isa.instruction import Instruction
from daedal.isa.scratchpad import TABLE_ROWS, Memory
from daedal.isa.table import AluOp, LoadMemory, Opcode, Unit
from daedal.isa.variant import load_variant

ATTENTION = load_variant("attention")
PLACES = ATTENTION.memory.tables


def access(place: int, *, writes: bool) -> PlacedRows:
    rows = ((0, TABLE_ROWS),)
    return PlacedRows(Memory.TAB, place * TABLE_ROWS, rows, reads=not writes, writes=writes)


def load(table: int, place: int) -> PlacedInstruction:
    fields = {"memory": LoadMemory.TAB, "row": place * TABLE_ROWS, "offset_beats": 64 * table}
    template = Instruction.of(Opcode.LOAD, blocks=1, rows=1, cols=TABLE_ROWS, **fields)
    return PlacedInstruction(template, 0, (access(place, writes=True),), "tables")


def read(place: int) -> PlacedInstruction:
    template = Instruction.of(Opcode.ALU, operation=int(AluOp.LOOKUP), table=place)
    return PlacedInstruction(template, 0, (access(place, writes=False),))


def tables_read(items: list[PlacedInstruction]) -> list[int]:
    """The table that each reader finds."""
    held: dict[int, int] = {}
    found = []
    for item in items:
        (rows,) = item.rows
        place = rows.first // TABLE_ROWS
        if item.unit is Unit.LOAD:
            assert item.instruction.values.get("row", 0) == rows.first
            held[place] = item.instruction.values.get("offset_beats", 0) // 64
        else:
            assert item.instruction.values.get("table", 0) == place
            found.append(held[place])
    return found


def num_loads(items: list[PlacedInstruction]) -> int:
    return sum(item.unit is Unit.LOAD for item in items)


def test_shared_tables_stay() -> None:
    """Layers of two tables each, of which the first is the same."""
    items = []
    for layer in range(8):
        place = 2 * layer % PLACES
        items += [load(0, place), load(layer + 1, place + 1), read(place), read(place + 1)]
    found = keep_tables(ATTENTION, items)
    assert tables_read(found) == tables_read(items)
    assert num_loads(found) == 9


@pytest.mark.parametrize("num_tables", [PLACES, PLACES + 1, 3 * PLACES])
def test_every_reader_finds_its_table(num_tables: int, rng: np.random.Generator) -> None:
    for _ in range(50):
        items: list[PlacedInstruction] = []
        held: set[int] = set()
        for _ in range(60):
            place = int(rng.integers(PLACES))
            if place in held and rng.random() < 0.6:
                items.append(read(place))
            else:
                items.append(load(int(rng.integers(num_tables)), place))
                held.add(place)
        found = keep_tables(ATTENTION, items)
        assert tables_read(found) == tables_read(items)
        assert num_loads(found) <= num_loads(items)


def test_what_has_no_tables_stays() -> None:
    other = PlacedInstruction(Instruction.of(Opcode.GEMM), 0, ())
    assert keep_tables(load_variant("tiny"), [other]) == [other]
    assert keep_tables(ATTENTION, [other]) == [other]
