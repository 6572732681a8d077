"""Results that stay in OUT across layers, and chains that need its rows: what saves more."""

import pytest

from daedal.compiler.codegen.segment import Instance, RowAccess, SegmentInstruction
from daedal.compiler.link.ordering import interleave
from daedal.compiler.link.ordering.tiles import Words
from daedal.isa.instruction import Instruction
from daedal.isa.memory_model import PRESETS
from daedal.isa.scratchpad import Memory
from daedal.isa.table import LoadMemory, Opcode
from tests.compiler.link.on_chip.test_kept_results import SMALL

Items = list[SegmentInstruction]

WHOLE = Instance("whole", Memory.OUT, 4)
COUNT = 6
"""Layers. Two of them can be chained: 2 and 3."""


def loaded(rows: int, *instances: Instance) -> Items:
    """A layer that loads so many rows, and uses instances of other layers."""
    load = Instruction.of(Opcode.LOAD, memory=LoadMemory.INP, blocks=1, rows=1, cols=rows)
    own = Instance("x", Memory.INP, rows)
    return [
        SegmentInstruction(
            load, tuple(RowAccess(x, "row", ((0, x.rows),), writes=True) for x in (own, *instances))
        )
    ]


def on_chip(
    monkeypatch: pytest.MonkeyPatch, chained_rows: int, kept_rows: int, readers: tuple[int, ...]
) -> tuple[interleave.Layers, set[int]]:
    """The layers, and the numbers of those that are chained. A chain needs 10 rows less than
    `chained_rows` says, and results on chip `kept_rows` less in each of `readers`, if no chain is
    among the layers across which they stay."""
    across = set(range(readers[0], readers[-1] + 1))

    def chain(layers, _kept, _words, _variant, _memory, apart):
        result = list(layers)
        if 2 in apart:
            return result, {}
        result[3] = loaded(100 - chained_rows)
        return result, {2: [Instance("part", Memory.OUT, 2)]}

    def keep(layers, _variant, _aliases, _moves, chained=()):
        result = list(layers)
        if across & set(chained):
            return result, frozenset()
        for number in readers:
            result[number] = loaded(100 - kept_rows, WHOLE)
        return result, frozenset({WHOLE})

    monkeypatch.setattr(interleave, "chain_layers", chain)
    monkeypatch.setattr(interleave, "keep_results", keep)
    layers = [loaded(100) for _ in range(COUNT)]
    found, chains, kept = interleave._on_chip(
        layers, frozenset(), Words(SMALL, {}), SMALL, PRESETS["ddr"], (), ()
    )
    assert bool(kept) == any(WHOLE in {a.instance for a in items[0].rows} for items in found)
    return found, set(chains)


def test_what_needs_the_bus_for_less_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results that stay from the layer in front of a chain to the one behind it."""
    found, chains = on_chip(monkeypatch, chained_rows=30, kept_rows=20, readers=(1, 4))
    assert not chains
    assert [items[0].template.values["cols"] for items in found] == [100, 80, 100, 100, 80, 100]
    found, chains = on_chip(monkeypatch, chained_rows=50, kept_rows=20, readers=(1, 4))
    assert chains == {2}
    assert [items[0].template.values["cols"] for items in found] == [100, 100, 100, 50, 100, 100]


def test_results_of_other_layers_stay_beside_a_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    for readers in ((0, 1), (4, 5)):
        found, chains = on_chip(monkeypatch, chained_rows=10, kept_rows=60, readers=readers)
        assert chains == {2}
        assert sum(items[0].template.values["cols"] for items in found) == 600 - 10 - 2 * 60
