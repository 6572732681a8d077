"""When a launch may leave out its setup: behind one of the same program that has succeeded."""

import pytest

from daedal.isa.instruction import Instruction
from daedal.isa.program import Program
from daedal.isa.table import Opcode
from daedal.isa.variant import load_variant
from daedal.runtime.last_launch import LastLaunch

LOAD, FINISH = Instruction.of(Opcode.LOAD), Instruction.of(Opcode.FINISH)


def program() -> Program:
    return Program(load_variant("tiny"), (LOAD, FINISH), setup=1)


def launched(last: LastLaunch, item: Program) -> int:
    """The number of instructions that run."""
    with last.then(item) as running:
        return len(running.instructions)


def test_only_the_program_of_the_last_launch_needs_no_setup() -> None:
    last, one, other = LastLaunch(), program(), program()
    assert [launched(last, item) for item in (one, one, other, one, one)] == [2, 1, 2, 2, 1]


def test_after_a_failed_launch_the_setup_runs() -> None:
    last, one = LastLaunch(), program()
    launched(last, one)
    with pytest.raises(RuntimeError), last.then(one):
        raise RuntimeError("the machine hangs")
    assert [launched(last, one) for _ in range(2)] == [2, 1]
