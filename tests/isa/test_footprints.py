"""Footprints against the expansion that the simulators use, and what they refuse."""

from collections.abc import Iterable

import numpy as np
import pytest

from daedal.isa.assembly import assemble
from daedal.isa.effects import effects, external
from daedal.isa.errors import ProgramError
from daedal.isa.footprints import Footprints, Touch
from daedal.isa.instruction import Instruction
from daedal.isa.program import Program
from daedal.isa.semantics import State, execute
from daedal.isa.table import BASES, Unit
from daedal.isa.variant import load_variant, shipped_variants
from tests.support.random_programs import random_program

TINY = load_variant("tiny")
Place = tuple[str, int, bool]


def flat(touches: Iterable[Touch], sizes: dict[str, int]) -> set[Place]:
    """Single places: (space, place, whether it is written)."""
    return {
        (touch.space, place, touch.write)
        for touch in touches
        for place in np.arange(sizes[touch.space])[touch.places].tolist()
    }


def expanded(program: Program, state: State, instruction: Instruction) -> set[Place]:
    """The same from `effects`, which lists every step."""
    variant, found = program.variant, set()
    for access in effects(variant, instruction, state.uops.get(instruction.unit)):
        rows = access.rows
        if access.memory.value.startswith("uop") and access.write:
            per_row = max(1, variant.bus_bytes // 8)
            rows = (rows[:, None] * per_row + np.arange(per_row)).reshape(-1)
        found |= {(access.memory.value, row, access.write) for row in rows.tolist()}
    moved = external(variant, instruction)
    if moved is not None:
        found |= {(BASES[moved.base], beat, moved.write) for beat in moved.beats.tolist()}
    return found


@pytest.mark.parametrize("name", shipped_variants())
def test_random_programs_touch_what_their_expansion_touches(name: str) -> None:
    variant = load_variant(name)
    for seed in range(6):
        drawn = random_program(variant, seed, length=60)
        program, state = drawn.program, State(variant)
        footprints = Footprints(program)
        bases = np.cumsum([0, *program.region_bytes[:3]]).tolist()
        memory = np.zeros(sum(program.region_bytes), dtype=np.uint8)
        memory[: len(program.constants)] = np.frombuffer(program.constants, np.uint8)
        for number, instruction in enumerate(program.instructions):
            expected = expanded(program, state, instruction)
            found = flat(footprints.of(instruction), footprints.sizes)
            assert found == expected, f"{name}, seed {seed}, instruction {number}"
            if instruction.unit is Unit.LOAD:
                execute(state, instruction, memory, bases)  # brings micro-ops


def load(text: str) -> set[int]:
    (instruction,) = assemble(f"LOAD base=inputs {text}")
    program = Program(TINY, (), bytes(256), (256, 4096, 256, 256))
    footprints = Footprints(program)
    found = flat(footprints.of(instruction), footprints.sizes)
    return {place for space, place, _ in found if space == "inputs"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("blocks=2 rows=2 cols=2 row_stride_beats=2 block_stride_beats=4", range(8)),
        ("blocks=2 rows=2 cols=2 row_stride_beats=4 block_stride_beats=2", range(8)),
        ("blocks=2 rows=2 cols=2 row_stride_beats=0 block_stride_beats=6", (0, 1, 6, 7)),
        ("blocks=2 rows=2 cols=2 row_stride_beats=1 block_stride_beats=5", (0, 1, 2, 5, 6, 7)),
        ("blocks=1 rows=3 cols=1 row_stride_beats=3 block_stride_beats=9", (0, 3, 6)),
        ("blocks=3 rows=1 cols=1 row_stride_beats=9 block_stride_beats=1", (0, 1, 2)),
        ("blocks=2 rows=0 cols=4", ()),
    ],
)
def test_strides_in_memory(text: str, words: Iterable[int]) -> None:
    assert load(f"{text} offset_beats=5") == {5 + word for word in words}


def program_of(text: str) -> Program:
    return Program(TINY, tuple(assemble(text)), bytes(256), (256, 256, 256, 256))


UOPS = "LOAD memory=UOP_GEMM blocks=1 rows=1 cols=4\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "GEMM uop_begin=2 uop_end=5 extent0=1 extent1=1 extent2=1",
            "every micro-op must be loaded before it is used; micro-op 4 of GEMM never was",
        ),
        ("GEMM uop_end=500", "GEMM.uop_end must be at most 256, the micro-op memory, not 500"),
        (
            "GEMM uop_end=1 extent0=1 extent1=2 extent2=2 inp_base=500 inp_factor1=5 inp_factor2=7",
            "GEMM.inp must stay below 512 rows, not reach 512",
        ),
        ("LOAD blocks=1 rows=1 cols=513", "LOAD must stay below 512 rows of scratchpad 'inp', not"),
        (
            "STORE base=outputs blocks=1 rows=2 cols=1 row_stride_beats=32",
            "STORE must stay within outputs of 256 bytes, not reach bus word 32 (byte 263)",
        ),
        (
            "LOAD memory=UOP_ALU blocks=1 rows=1 cols=1 offset_beats=32",
            "LOAD must stay within constants of 256 bytes, not reach bus word 32 (byte 263)",
        ),
    ],
)
def test_what_leaves_its_space_is_refused(text: str, message: str) -> None:
    first, second = program_of(UOPS + text).instructions
    footprints = Footprints(program_of(UOPS + text))
    footprints.of(first)
    with pytest.raises(ProgramError) as caught:
        footprints.of(second)
    assert message in str(caught.value)


def test_a_nest_of_many_million_steps_is_listed_by_its_rows() -> None:
    """The size of the loops does not matter, only that of the scratchpad."""
    text = "GEMM uop_end=4 extent0=500 extent1=250 extent2=300 acc_factor1=1"
    first, second = program_of(UOPS + text).instructions
    footprints = Footprints(program_of(UOPS + text))
    footprints.of(first)
    rows = [touch.places for touch in footprints.of(second) if touch.space == "acc"]
    assert rows == [slice(0, 250)] * 2
