"""The LOADs before a LOAD in its rows: the kernel against the definition, row by row."""

import numpy as np
import pytest

from daedal.compiler.link.placement import earlier_loads as module
from daedal.compiler.link.placement.earlier_loads import EarlierLoads
from daedal.compiler.link.placement.placed import PlacedInstruction
from daedal.compiler.link.placement.touched_rows import TouchedRows
from daedal.isa.instruction import Instruction
from daedal.isa.scratchpad import Memory
from daedal.isa.table import Opcode, Unit
from tests.compiler.link.placement.test_hazards import TINY, PlacedRows, stream


def defined(items: list[PlacedInstruction]) -> list[list[int]]:
    latest: dict[tuple[Memory, int], int] = {}
    found = []
    for number, item in enumerate(items):
        rows = [
            (memory, first + row)
            for memory, first, runs, _, writes in item.rows
            if writes and item.unit is Unit.LOAD
            for begin, end in runs
            for row in range(begin, end)
        ]
        found.append(sorted({latest[row] for row in rows if row in latest}))
        latest |= dict.fromkeys(rows, number)
    return found


def listed(items: list[PlacedInstruction]) -> list[list[int]]:
    loads = EarlierLoads(TouchedRows.of(TINY, items))
    return [loads.of(number) for number in range(len(items))]


def test_random_streams(rng: np.random.Generator) -> None:
    for _ in range(4):
        items = stream(rng, 80)
        expected = defined(items)
        assert max(map(len, expected)) > 1
        assert listed(items) == expected


@pytest.mark.parametrize("how", ["plain", "checked"])
def test_every_form_of_the_kernel(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    items = stream(rng, 30)
    monkeypatch.setattr(module, "_find", getattr(module._find, how))
    assert listed(items) == defined(items)


def test_any_number_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than there was space for at first."""
    monkeypatch.setattr(module, "EACH", 0)

    def load(first: int, rows: int) -> PlacedInstruction:
        touched = PlacedRows(Memory.WGT, first, ((0, rows),), reads=False, writes=True)
        return PlacedInstruction(Instruction.of(Opcode.LOAD), 0, (touched,))

    single = [load(row, 1) for row in range(64)]
    items = [*single, *(item for _ in range(4) for item in (load(0, 64), *single))]
    assert listed(items) == defined(items)


def test_nothing() -> None:
    assert not listed([])
