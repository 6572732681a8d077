"""Two layers with products at the same time: their order, and when it does not pay."""

from collections.abc import Sequence

import pytest

from daedal.compiler.codegen.segment import SegmentInstruction
from daedal.compiler.cost.instructions import InstructionCost
from daedal.compiler.link.ordering.side_by_side import FEWEST_TILES, MOST_CYCLES, side_by_side
from daedal.isa.instruction import Instruction
from daedal.isa.table import LoadMemory, Opcode, Unit
from daedal.isa.variant import load_variant

TINY = load_variant("tiny")
COST = InstructionCost(TINY)
UNITS = {"GEMM": Opcode.GEMM, "ALU": Opcode.ALU}

Tiles = list[list[SegmentInstruction]]


def tiles(unit: str, cycles: int, bus_cycles: int = 0, count: int = FEWEST_TILES) -> Tiles:
    """Tiles that take a unit, and the bus, about so many cycles each."""

    def item(opcode: Opcode, field: str, cycles: int, **values: int) -> SegmentInstruction:
        one = {field: 1, **values}
        uops = None if opcode is Opcode.LOAD else ((0, 0, 0, 1),)
        step = SegmentInstruction(Instruction.of(opcode, **one), (), uops=uops)
        many = round(cycles / sum(COST.by_unit([step] * 100).values()) * 100)
        return step._replace(template=step.template.replace(**{field: many}))

    move = {"memory": LoadMemory.ACC, "blocks": 1, "rows": 1}
    loads = [item(Opcode.LOAD, "cols", bus_cycles, **move)] if bus_cycles else []
    return [[*loads, item(UNITS[unit], "extent0", cycles)] for _ in range(count)]


def order(first: Tiles, second: Tiles) -> str | None:
    """The layer of each operation."""
    found = side_by_side(first, second, TINY)
    units: Sequence[Unit] = (Unit.GEMM, Unit.ALU)
    return found and "".join(str(layer) for layer, item in found if item.unit in units)


def test_tiles_alternate_in_proportion() -> None:
    assert order(tiles("GEMM", 400), tiles("ALU", 400)) == "01" * 4
    assert order(tiles("ALU", 200, count=8), tiles("GEMM", 400)) == "010" * 4


@pytest.mark.parametrize(("first", "second"), [(FEWEST_TILES - 1, 9), (9, FEWEST_TILES - 1)])
def test_few_tiles_stay_apart(first: int, second: int) -> None:
    assert order(tiles("GEMM", 400, count=first), tiles("ALU", 400, count=second)) is None


@pytest.mark.parametrize("unit", UNITS)
def test_layers_of_one_unit_stay_apart(unit: str) -> None:
    assert order(tiles(unit, 400), tiles(unit, 200)) is None


def test_a_bus_that_both_need_leaves_nothing_to_gain() -> None:
    """Each layer is bound by its unit, and both together are by the bus."""
    for share, pays in ((MOST_CYCLES - 0.05, True), (MOST_CYCLES + 0.05, False)):
        layers = [tiles(unit, 400, round(400 * share)) for unit in UNITS]
        busy = [COST.by_unit(item for tile in layer for item in tile) for layer in layers]
        assert [max(unit, key=lambda name: unit[name]) for unit in busy] == list(UNITS)
        assert (order(*layers) is not None) == pays
