"""What a program's file may not ask of a machine: memory, instructions, steps, stray tensors."""

import dataclasses

import pytest

from daedal.common.errors import ArtifactError, ProgramError
from daedal.isa import program as program_module
from daedal.isa.instruction import Instruction
from daedal.isa.program import MAX_INSTRUCTIONS, Program
from daedal.isa.table import BASES, Opcode
from daedal.isa.tensor import TensorSpec
from daedal.isa.transfer import transfer, transfer_end_bytes
from daedal.isa.variant import load_variant

TINY = load_variant("tiny")
FINISH = Instruction.of(Opcode.FINISH)


def refusal(program: Program) -> str:
    """The sentence; the file of such a program is refused too."""
    with pytest.raises(ProgramError) as error:
        program.check_bounds()
    with pytest.raises(ArtifactError, match="a file that Daedal wrote"):
        Program.from_bytes(program.to_bytes())
    return str(error.value)


def test_memory_has_a_bound() -> None:
    half = 1 << 29
    Program(TINY, (FINISH,), region_bytes=(half, half, 0, 0)).check_bounds()
    assert refusal(Program(TINY, (FINISH,), region_bytes=(half, half, 1, 0))) == (
        "a program must use at most 1073741824 bytes of memory, not 1073741825; use a smaller "
        "network"
    )


def test_tensors_lie_in_their_regions() -> None:
    spec = TensorSpec("x", 1, 64, (1, 8, 2, 2), 8, 1, 8)
    program = Program(TINY, (FINISH,), region_bytes=(0, 96, 0, 0), inputs=(spec,))
    program.check_bounds()
    assert Program.from_bytes(program.to_bytes()).inputs == (spec,)
    short = dataclasses.replace(program, region_bytes=(0, 95, 0, 0))
    assert refusal(short) == (
        "tensors must lie within their region of 95 bytes, and 'x' ends at 96; compile the model "
        "again"
    )


def test_rows_of_inputs_follow_each_other() -> None:
    spec = TensorSpec("x", 1, 0, (1, 8, 2, 2), 8, 1, 8, pitch=3)
    program = Program(TINY, (FINISH,), region_bytes=(0, 64, 64, 0), inputs=(spec,))
    assert refusal(program) == (
        "rows of an input must follow each other, and those of 'x' lie 3 columns apart; compile "
        "the model again"
    )
    output = dataclasses.replace(spec, base=2)
    program = dataclasses.replace(program, inputs=(), outputs=(output,))
    assert Program.from_bytes(program.to_bytes()).outputs == (output,)
    overlapping = dataclasses.replace(program, outputs=(dataclasses.replace(output, pitch=2),))
    with pytest.raises(ArtifactError, match="a file that Daedal wrote"):
        Program.from_bytes(overlapping.to_bytes())


def test_steps_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    gemm = Instruction.of(Opcode.GEMM, uop_begin=2, uop_end=5, extent0=7, extent1=2, extent2=1)
    assert gemm.steps == 3 * 7 * 2
    assert gemm.replace(uop_begin=6).steps == FINISH.steps == 0
    program = Program(TINY, (gemm, gemm, FINISH))
    monkeypatch.setattr(program_module, "MAX_STEPS", 84)
    program.check_bounds()
    monkeypatch.setattr(program_module, "MAX_STEPS", 83)
    assert refusal(program) == (
        "a program must take at most 83 steps, not 84; use a smaller network"
    )


def test_a_setup_is_a_part_of_the_program() -> None:
    program = Program(TINY, (Instruction.of(Opcode.LOAD), FINISH), setup=1)
    assert Program.from_bytes(program.to_bytes()) == program
    assert program.repeated.instructions == (FINISH,) and program.repeated.setup == 0
    assert program.setup_alone == Program(TINY, program.instructions)
    assert program.repeated.repeated is program.repeated
    for setup in (-1, 3):
        assert refusal(dataclasses.replace(program, setup=setup)) == (
            f"the setup of a program must be some of its 2 instructions, not {setup}; compile the "
            "model again"
        )


def test_stores_that_nothing_reads_are_kept_apart() -> None:
    store = Instruction.of(Opcode.STORE, rows=2, cols=3)
    load = Instruction.of(Opcode.LOAD)
    program = Program(TINY, (load, store, load, FINISH), setup=1, unread={1: 4})
    assert Program.from_bytes(program.to_bytes()) == program
    assert program.observed.instructions == (load, store.replace(blocks=4), load, FINISH)
    assert program.observed.observed is program.observed and not program.observed.unread
    assert program.repeated.observed.instructions == program.observed.instructions[1:]
    for number, problem in (
        (2, program),
        (1, dataclasses.replace(program, setup=2)),
        (1, program.observed),
    ):
        assert refusal(dataclasses.replace(problem, unread={number: 4})) == (
            "what nothing reads must be STOREs of no planes behind the setup, and instruction "
            f"{number} is none; compile the model again"
        )


def test_what_nothing_reads_may_lie_behind_the_workspace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two planes of 3 x 5 rows, 8 and 100 words apart, from word 200."""
    store = Instruction.of(
        Opcode.STORE,
        base=BASES.index("workspace"),
        offset_beats=200,
        rows=3,
        cols=5,
        row_stride_beats=8,
        block_stride_beats=100,
    )
    program = Program(TINY, (store, FINISH), region_bytes=(0, 8, 8, 64), unread={0: 2})
    end = (200 + 100 + 2 * 8 + 5) * TINY.bus_bytes
    assert transfer_end_bytes(TINY, store) == 0
    assert transfer(TINY, store.replace(blocks=2)).offsets_bytes.max() == end - TINY.bus_bytes
    assert program.observed.region_bytes == (0, 8, 8, end)
    assert program.region_bytes == (0, 8, 8, 64)
    wide = dataclasses.replace(program, region_bytes=(0, 8, 8, end + 8))
    assert wide.observed.region_bytes == wide.region_bytes
    monkeypatch.setattr(program_module, "MAX_MEMORY_BYTES", end + 16)
    program.check_bounds()
    monkeypatch.setattr(program_module, "MAX_MEMORY_BYTES", end + 15)
    assert refusal(program) == (
        f"a program must use at most {end + 15} bytes of memory, not {end + 16}; use a smaller "
        "network"
    )


def test_instructions_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program(TINY, (FINISH, FINISH, FINISH))
    assert Program.from_bytes(program.to_bytes()) == program and MAX_INSTRUCTIONS > 3
    monkeypatch.setattr(program_module, "MAX_INSTRUCTIONS", 2)
    with pytest.raises(ArtifactError, match="a file that Daedal wrote"):
        Program.from_bytes(program.to_bytes())
