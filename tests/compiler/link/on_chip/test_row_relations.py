"""Rows that one ALU instruction relates: a result in those of an operand, operands in two banks."""

from dataclasses import replace

import pytest

from daedal.common.errors import ScheduleError
from daedal.compiler.codegen.segment import Instance, RowAccess, Segment, SegmentInstruction
from daedal.compiler.link.on_chip.row_relations import RowRelations
from daedal.compiler.link.ordering.interleave import Stretch
from daedal.compiler.link.placement.place import Placement
from daedal.isa.instruction import Instruction
from daedal.isa.scratchpad import Memory
from daedal.isa.table import AluOp, Opcode, OutMemory
from daedal.isa.variant import Variant, load_variant

ROWS = 6


def _operation(x: Instance, y: Instance, result: Instance | None = None) -> SegmentInstruction:
    """The larger of x and y over all rows, over x or into `result`."""
    destination = OutMemory.ACC if result is None else OutMemory.OUT
    fields = {"extent0": 1, "extent1": 1, "extent2": ROWS, "dst_factor2": 1, "src_factor2": 1}
    template = Instruction.of(Opcode.ALU, operation=AluOp.MAX, destination=destination, **fields)
    rows = [
        RowAccess(x, "dst_base", ((0, ROWS),), reads=True, writes=result is None),
        RowAccess(y, "src_base", ((0, ROWS),), reads=True),
    ]
    if result is not None:
        rows.insert(0, RowAccess(result, "dst_base", ((0, ROWS),), writes=True))
    return SegmentInstruction(template, tuple(rows), uops=((0, 0, 0),))


def _placed(variant: Variant, *items: SegmentInstruction, renaming: bool = True) -> list[list[int]]:
    """The first row of every access but micro-ops, of each ALU instruction."""
    stretch = Stretch((0,), tuple((0, item) for item in items))
    found = Placement(variant, renaming).run([stretch], [Segment("layer", items)])
    return [
        [
            part.first + part.runs[0][0]
            for part in item.rows
            if part.memory in (Memory.ACC, Memory.OUT)
        ]
        for item in found
        if item.instruction.opcode is Opcode.ALU
    ]


def _instances(*memories: Memory) -> list[Instance]:
    return [Instance(f"buffer{number}", memory, ROWS) for number, memory in enumerate(memories)]


@pytest.mark.parametrize("renaming", [True, False])
def test_a_result_has_the_rows_of_its_operand(renaming: bool) -> None:
    """Also where results of other operations are still in OUT."""
    variant = load_variant("vta")
    items = []
    for _ in range(3):
        x, y, result = _instances(Memory.ACC, Memory.ACC, Memory.OUT)
        items.append(_operation(x, y, result))
    for result, x, y in _placed(variant, *items, *items, renaming=renaming):
        assert result == x != y


def test_results_stay_within_out() -> None:
    """Where OUT has fewer rows than the accumulators."""
    variant = load_variant("vta")
    variant = replace(variant, memory=replace(variant.memory, out_bytes=2048))
    items = []
    for _ in range(30):
        items.append(_operation(*_instances(Memory.ACC, Memory.ACC, Memory.OUT)[:2]))
        items.append(_operation(*_instances(Memory.ACC, Memory.ACC, Memory.OUT)))
    rows = [item for item in _placed(variant, *items) if len(item) > 2]
    assert all(result == x and x + ROWS <= 128 for result, x, _ in rows)


@pytest.mark.parametrize("banks", [4, 8])
def test_two_operands_are_read_in_one_cycle(banks: int) -> None:
    variant = load_variant("vta")
    variant = replace(variant, memory=replace(variant.memory, acc_banks=banks))
    items = [_operation(*_instances(Memory.ACC, Memory.ACC)) for _ in range(4)]
    assert all((x - y) % 2 == 1 for x, y in _placed(variant, *items))


@pytest.mark.parametrize(("rows", "apart"), [(ROWS, True), (ROWS - 1, False)])
def test_an_operand_that_is_repeated_lies_in_another_bank(rows: int, apart: bool) -> None:
    """Where it is repeated every even number of rows."""
    large = Instance("large", Memory.ACC, 3 * rows)
    small = Instance("small", Memory.ACC, rows)
    fields = {"extent0": 1, "extent1": 3, "dst_factor1": rows, "extent2": rows}
    fields |= {"dst_factor2": 1, "src_factor2": 1}
    template = Instruction.of(Opcode.ALU, operation=AluOp.MAX, destination=1, **fields)
    accesses = (
        RowAccess(large, "dst_base", ((0, 3 * rows),), reads=True, writes=True),
        RowAccess(small, "src_base", ((0, rows),), reads=True),
    )
    item = SegmentInstruction(template, accesses, uops=((0, 0, 0),))
    relations = RowRelations((item,), load_variant("vta"))
    assert relations.odd(small, {large: 0}) is (True if apart else None)


def test_one_operand_has_one_result() -> None:
    x, y, first, second = _instances(Memory.ACC, Memory.ACC, Memory.OUT, Memory.OUT)
    items = (_operation(x, y, first), _operation(x, y, second))
    with pytest.raises(ScheduleError, match="must have one such operand, and the operand one"):
        _placed(load_variant("vta"), *items)


def test_the_operand_that_is_met_more_often_counts() -> None:
    """An operation over one row and one over all of them cannot both have two banks."""
    a, b, c = (Instance(name, Memory.ACC, ROWS) for name in "abc")

    def operation(x: Instance, y: Instance, count: int) -> SegmentInstruction:
        fields = {"extent0": 1, "extent1": 1, "extent2": count, "dst_factor2": 1, "src_factor2": 1}
        template = Instruction.of(Opcode.ALU, operation=AluOp.ADD, destination=1, **fields)
        accesses = (
            RowAccess(x, "dst_base", ((0, count),), reads=True, writes=True),
            RowAccess(y, "src_base", ((0, count),), reads=True),
        )
        return SegmentInstruction(template, accesses, uops=((0, 0, 0),))

    items = (operation(a, c, 1), operation(b, c, ROWS))
    relations = RowRelations(items, load_variant("vta"))
    assert relations.odd(c, {a: 0, b: 1}) is False
    assert relations.odd(c, {a: 0}) is True
    assert relations.odd(c, {}) is None
    even = RowRelations((operation(a, c, 2), operation(b, c, 2)), load_variant("vta"))
    assert even.odd(c, {a: 0, b: 1}) is None
