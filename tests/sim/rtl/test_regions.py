"""No LOAD or STORE leaves its region, whatever the program: the whole machine with guard bytes."""

from dataclasses import replace

import numpy as np
import pytest

from bench.correctness.rtl_launches import rtl_device
from daedal.isa.instruction import Instruction
from daedal.isa.memory_model import memory_model
from daedal.isa.program import Program
from daedal.isa.registers import ErrorCode
from daedal.isa.semantics import State, execute
from daedal.isa.table import BASES, LoadMemory, Opcode, OutMemory
from daedal.isa.variant import load_variant
from daedal.sim.rtl.launch import Launch, Outcome
from tests.support.region_cases import RegionCase, region_cases

pytestmark = pytest.mark.rtl

TINY = load_variant("tiny")
WORDS, LINE = 64, 4
SIZE = WORDS * TINY.bus_bytes
BEGINS = tuple(1024 + 2048 * number for number in range(len(BASES)))
GUARD = 0xA5
FINISH = Instruction.of(Opcode.FINISH)


def launch_of(opcode: Opcode, base: int, case: RegionCase, seed: int) -> Launch:
    """A good transfer, that of `case` and a good one, with regions far from each other."""
    memory = LoadMemory.INP if opcode is Opcode.LOAD else OutMemory.OUT
    good = {"blocks": 1, "rows": 1}
    transfers = [
        Instruction.of(opcode, base=base, memory=memory, cols=LINE, **fields)
        for fields in (good, case.fields, good)
    ]
    program = Program(TINY, (*transfers, FINISH), region_bytes=(SIZE,) * len(BASES))
    contents = bytearray([GUARD]) * (BEGINS[-1] + 2048)
    for begin in BEGINS:
        contents[begin : begin + SIZE] = bytes(range(256)) * (SIZE // 256)
    return Launch(program, BEGINS, bytes(contents), timing=memory_model("jitter", seed))


def defined_memory(launch: Launch) -> bytes:
    """By the definition; devices refuse a STORE to the constants, which the machine obeys."""
    program, memory = launch.program, np.frombuffer(bytearray(launch.memory), np.uint8)
    state = State(program.variant)
    for item in program.instructions:
        execute(state, item, memory, launch.bases, program.region_words)
    return memory.tobytes()


def check(launch: Launch, case: RegionCase, outcome: Outcome) -> None:
    first = launch.program.instructions[0]
    if case.inside is None:
        outcome.check()
        assert outcome.memory == defined_memory(launch)
        return
    found = (outcome.error, outcome.unit, outcome.instruction)
    assert found == (ErrorCode.MEMORY_RANGE, first.unit, 1)
    begin = BEGINS[first.base]
    before, after = launch.memory, outcome.memory
    assert before[:begin] == after[:begin] and before[begin + SIZE :] == after[begin + SIZE :]
    if first.opcode is Opcode.LOAD:
        assert before == after


@pytest.mark.parametrize("opcode", [Opcode.LOAD, Opcode.STORE])
def test_every_case_of_every_base(opcode: Opcode) -> None:
    launches, cases = [], []
    for case in region_cases(TINY, WORDS, LINE):
        for base in range(len(BASES)):
            launches.append(launch_of(opcode, base, case, len(launches)))
            cases.append(case)
    for one in zip(launches, cases, rtl_device(TINY).launch_each(launches), strict=True):
        check(*one)


def test_a_region_of_no_bytes_is_not_entered() -> None:
    """After reset all sizes are 0: what a driver does not name stays closed."""
    case = region_cases(TINY, WORDS, LINE)[0]
    launches = []
    for opcode in (Opcode.LOAD, Opcode.STORE):
        launch = launch_of(opcode, 3, case, 7)
        closed = replace(launch.program, region_bytes=(SIZE, SIZE, SIZE, 0))
        launches.append(replace(launch, program=closed))
    for launch, outcome in zip(launches, rtl_device(TINY).launch_each(launches), strict=True):
        unit = launch.program.instructions[0].unit
        found = (outcome.error, outcome.unit, outcome.instruction)
        assert found == (ErrorCode.MEMORY_RANGE, unit, 0)
        assert outcome.memory == launch.memory
        assert outcome.profile.units[unit].work == 0
