"""The estimated cycles of instructions against those that the cycle model counts."""

from collections import Counter
from pathlib import Path

import pytest

import daedal
from bench.figures import launched
from daedal.compiler.cost.instructions import InstructionCost
from daedal.isa.registers import CycleClass
from daedal.isa.table import Unit
from daedal.isa.variant import load_variant

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits_qdq.onnx"


@pytest.mark.parametrize("name", ["vta", "ecp5"])
def test_units_are_busy_for_the_sum_of_their_instructions(name: str) -> None:
    """Words and products are exact. The ALU is busy for a cycle more, or none, with each
    instruction."""
    variant = load_variant(name)
    (launch,) = daedal.compile(DIGITS, variant, cache=False).launches
    cost, cycles, count = InstructionCost(variant), Counter[Unit](), Counter[Unit]()
    for instruction in launch.program.instructions:
        cycles[instruction.unit] += cost.of(instruction, instruction.steps)
        count[instruction.unit] += 1
    profile = launched(launch.program)
    for unit in (Unit.LOAD, Unit.GEMM, Unit.STORE):
        assert cycles[unit] == profile.units[unit].work
    beyond = profile.units[Unit.ALU].classes[CycleClass.BUSY] - cycles[Unit.ALU]
    assert 0 <= beyond <= count[Unit.ALU]
