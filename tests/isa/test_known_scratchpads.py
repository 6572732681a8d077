"""A program that gives the rows which random programs use known contents."""

import pytest

from daedal.isa.known_scratchpads import known_scratchpads
from daedal.isa.random_programs import WINDOW_ROWS
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import LOOPS, LoadMemory, Opcode, OutMemory
from daedal.isa.variant import load_variant
from daedal.isa.verifier import verify


@pytest.mark.parametrize("name", ["tiny", "vta", "attention", "batch4"])
def test_both_ends_of_each_scratchpad_are_written(name: str) -> None:
    variant = load_variant(name)
    program = known_scratchpads(variant, 3).program
    verify(program)
    found = dict[Memory, set[tuple[int, int]]]()
    for item in program.instructions:
        if item.opcode is Opcode.LOAD and item.memory != LoadMemory.UOP_ALU:
            memory = LoadMemory(item.memory).memory
            rows = item.blocks * item.rows * item.cols
            found.setdefault(memory, set()).add((item.row, rows))
        if item.opcode is Opcode.ALU:
            assert item.destination == OutMemory.OUT
            assert [getattr(item, f"extent{level}") for level in range(1, LOOPS)] == [1] * (
                LOOPS - 1
            )
            found.setdefault(Memory.OUT, set()).add((item.dst_base, item.extent0))
    assert {Memory.INP, Memory.WGT, Memory.ACC, Memory.PAR, Memory.OUT} <= found.keys()
    for memory, ranges in found.items():
        depth = scratchpad(variant, memory).depth_rows
        span = min(depth, 2 * WINDOW_ROWS)
        assert ranges == {(0, span), (depth - span, span)}, memory
