"""Rows of padding that LOADs of their own write."""

import pytest

from daedal.compiler.codegen.segment import Instance, RowAccess, SegmentInstruction
from daedal.compiler.link.on_chip.renumber import pads_alone
from daedal.isa.instruction import Instruction
from daedal.isa.scratchpad import Memory
from daedal.isa.table import LoadMemory, Opcode


@pytest.mark.parametrize("count", [1, 63, 64, 127, 150])
def test_every_row_is_written_once(count: int) -> None:
    instance = Instance("x", Memory.INP, 200)
    access = RowAccess(instance, "row", ((0, 200),), writes=True)
    template = Instruction.of(Opcode.LOAD, memory=LoadMemory.INP, blocks=1, rows=1, cols=200)
    wanted = range(7, 7 + count)
    found = pads_alone(SegmentInstruction(template, (access,), "x"), wanted)
    rows = [row for item in found for begin, end in item.rows[0].runs for row in range(begin, end)]
    assert rows == list(wanted)
    for item in found:
        ((begin, end),) = item.rows[0].runs
        values = item.template.values
        assert (values["row"], values["pad_right"], values.get("cols", 0)) == (
            begin,
            end - begin,
            0,
        )
