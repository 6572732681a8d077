"""Footprints against the expansion that the simulators use, and what they refuse."""

from collections.abc import Iterable

import numpy as np
import pytest

from bench.correctness.random_runs import every_variant
from daedal.common.errors import ProgramError
from daedal.isa import loop_rows
from daedal.isa.assembly import assemble
from daedal.isa.footprints import Footprints, Touch
from daedal.isa.program import Program
from daedal.isa.random_programs import random_program
from daedal.isa.scratchpad import Memory, scratchpads
from daedal.isa.variant import load_variant
from tests.support.touched_places import Place, touched_places

TINY = load_variant("tiny")


def flat(touches: Iterable[Touch], sizes: dict[str, int]) -> tuple[set[Place], set[Place]]:
    """Single places that are read, and that are written."""
    found: tuple[set[Place], set[Place]] = (set(), set())
    for touch in touches:
        places = np.arange(sizes[touch.space])[touch.places].tolist()
        found[touch.write].update((touch.space, place) for place in places)
    return found


@pytest.mark.parametrize("name", every_variant())
def test_random_programs_touch_what_their_expansion_touches(name: str) -> None:
    for seed in range(6):
        program = random_program(every_variant()[name], seed, length=60).program
        footprints = Footprints(program)
        for number, expected in enumerate(touched_places(program)):
            found = flat(footprints.of(program.instructions[number]), footprints.sizes)
            assert found == expected, f"{name}, seed {seed}, instruction {number}"


@pytest.mark.parametrize("table", range(8))
def test_a_lookup_touches_its_table_alone(table: int) -> None:
    footprints = Footprints(Program(every_variant()["tables"], (), bytes(256), (256, 0, 0, 0)))
    load, lookup = assemble(
        "LOAD memory=UOP_ALU blocks=1 rows=1 cols=1\n"
        f"ALU operation=LOOKUP table={table} uop_end=1 extent0=1 extent1=1 extent2=1"
    )
    list(footprints.of(load))
    touches = [touch for touch in footprints.of(lookup) if touch.space == "tab"]
    assert touches == [Touch("tab", slice(8 * table, 8 * table + 8), False)]


@pytest.mark.parametrize("fewer", ["acc", "out"])
def test_an_operation_on_two_rows_needs_both(fewer: str) -> None:
    """ADD reads ACC[dst] and writes OUT[dst]: the smaller of the two bounds dst."""
    name = f"{fewer}_bytes"
    variant = TINY.replace("uneven", **{name: getattr(TINY.memory, name) // 2})
    depth = scratchpads(variant)[Memory(fewer)].depth_rows
    text = "ALU operation=ADD destination=OUT uop_end=1 extent0=1 extent1=1 extent2=1 dst_base={}"
    load = assemble("LOAD memory=UOP_ALU blocks=1 rows=1 cols=1")[0]

    def touches(row: int) -> list[Touch]:
        footprints = Footprints(Program(variant, (), bytes(256), (256, 256, 256, 256)))
        list(footprints.of(load))
        return list(footprints.of(assemble(text.format(row))[0]))

    assert touches(depth - 1)
    with pytest.raises(ProgramError, match=f"ALU.dst must stay below {depth} rows"):
        touches(depth)


def test_rows_beyond_the_last_are_refused_before_they_are_expanded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The loops of one instruction may name more rows than memory holds numbers."""

    def expand(*_: object) -> None:
        raise AssertionError("the rows are expanded")

    monkeypatch.setattr(loop_rows, "_sums", expand)
    footprints = Footprints(Program(TINY, (), bytes(256), (256, 256, 256, 256)))
    load = "LOAD memory=UOP_GEMM blocks=1 rows=1 cols=1"
    gemm = "GEMM uop_end=1 extent0=1000 extent1=1000 extent2=1000 acc_factor0=15 acc_factor1=15"
    instructions = assemble(f"{load}\n{gemm}")
    list(footprints.of(instructions[0]))
    with pytest.raises(ProgramError, match=r"GEMM\.acc must stay below 256 rows, not reach 29970"):
        footprints.of(instructions[1])


def load(text: str) -> set[int]:
    (instruction,) = assemble(f"LOAD base=inputs {text}")
    program = Program(TINY, (), bytes(256), (256, 4096, 256, 256))
    footprints = Footprints(program)
    reads, _ = flat(footprints.of(instruction), footprints.sizes)
    return {place for _, place in reads}


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
        (
            "GEMM uop_end=500 extent0=1 extent1=1 extent2=1",
            "GEMM.uop_end must be at most 256, the micro-op memory, not 500",
        ),
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
