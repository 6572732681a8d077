"""Tokens found for programs without any: enough for the verifier, and none too many."""

import pytest

from daedal.common.errors import ProgramError, VerificationError
from daedal.isa.assembly import assemble
from daedal.isa.hazards import NO_INSTRUCTION, conflicts
from daedal.isa.instruction import Instruction
from daedal.isa.program import Program
from daedal.isa.random_programs import random_program
from daedal.isa.table import Opcode, Unit
from daedal.isa.tokens import find_waits, with_tokens
from daedal.isa.variant import Variant, load_variant
from daedal.isa.verifier import verify

TINY = load_variant("tiny")
TABLES = TINY.replace("tables", tables=4)
WIDE_BUS = load_variant("vta").replace(name="wide_bus", data_bits=128)
"""Its micro-op rows hold two micro-ops."""


def program(text: str, variant: Variant = TINY) -> Program:
    return Program(variant, tuple(assemble(text)), bytes(512), (512, 512, 512, 512))


def masks(result: Program) -> list[tuple[int, int]]:
    return [(item.pop, item.push) for item in result.instructions]


def test_a_chain_of_units_needs_a_token_per_step() -> None:
    result = with_tokens(
        program(
            "LOAD memory=UOP_GEMM blocks=1 rows=1 cols=1\n"
            "LOAD memory=INP blocks=1 rows=1 cols=1\n"
            "GEMM uop_end=1 extent0=1 extent1=1 extent2=1\n"
            "STORE memory=ACC base=outputs blocks=1 rows=1 cols=1\n"
            "LOAD memory=ACC blocks=1 rows=1 cols=1\n"
            "FINISH"
        )
    )
    verify(result, zeroed=True)
    load, gemm, store = (1 << unit for unit in (Unit.LOAD, Unit.GEMM, Unit.STORE))
    # The second LOAD implies the first, and the STORE before the last LOAD implies the GEMM.
    assert masks(result) == [(0, 0), (0, gemm), (load, store), (gemm, load), (store, 0), (0, 0)]


def test_tokens_that_were_there_are_replaced() -> None:
    text = "LOAD blocks=1 rows=1 cols=1 push=GEMM\nGEMM pop=LOAD\nFINISH"
    assert masks(with_tokens(program(text))) == [(0, 0)] * 3


def test_a_table_is_ordered_with_the_lookups_in_it_alone() -> None:
    """Both ways: a LOOKUP waits for the LOAD of its table, a LOAD for the LOOKUPs before it."""
    text = (
        "LOAD memory=UOP_ALU blocks=1 rows=1 cols=1\n"
        "LOAD memory=TAB blocks=1 rows=1 cols=8 row=8\n"
        "ALU operation=LOOKUP table=1 uop_end=1 extent0=1 extent1=1 extent2=1\n"
        "LOAD memory=TAB blocks=1 rows=1 cols=1 row={}\nFINISH"
    )
    load, alu = (1 << unit for unit in (Unit.LOAD, Unit.ALU))
    again = with_tokens(program(text.format(15), TABLES))
    assert masks(again) == [(0, 0), (0, alu), (load, load), (alu, 0), (0, 0)]
    other = with_tokens(program(text.format(16), TABLES))
    assert masks(other) == [(0, 0), (0, alu), (load, 0), (0, 0), (0, 0)]
    verify(again, zeroed=True)
    unordered = list(again.instructions)
    unordered[2], unordered[3] = unordered[2].replace(push=0), unordered[3].replace(pop=0)
    with pytest.raises(VerificationError, match="tab"):
        verify(Program(TABLES, tuple(unordered), bytes(512), (512, 512, 512, 512)), zeroed=True)


def test_memory_is_ordered_too() -> None:
    text = (
        "STORE base=workspace offset_beats=4 blocks=1 rows=1 cols=1\n"
        "LOAD base=workspace offset_beats={} blocks=1 rows=1 cols=1\nFINISH"
    )
    assert masks(with_tokens(program(text.format(4))))[1] == (1 << Unit.STORE, 0)
    assert masks(with_tokens(program(text.format(8))))[1] == (0, 0)


@pytest.mark.parametrize("variant", [TINY, WIDE_BUS], ids=lambda variant: variant.name)
@pytest.mark.parametrize("seed", range(12))
def test_random_programs_verify(variant: Variant, seed: int) -> None:
    drawn = random_program(variant, seed, length=60).program
    report = verify(with_tokens(drawn), zeroed=True)
    assert 0 < report.tokens <= verify(drawn, zeroed=True).tokens


def test_every_token_is_needed() -> None:
    result = with_tokens(random_program(TINY, 3, length=60).program)
    queues: dict[tuple[Unit, Unit], list[int]] = {}
    pairs = []
    units = (Unit.LOAD, Unit.GEMM, Unit.ALU, Unit.STORE)
    for number, item in enumerate(result.instructions):
        for other in units:
            if item.pop >> other & 1:
                pairs.append((queues[other, item.unit].pop(0), number))
            if item.push >> other & 1:
                queues.setdefault((item.unit, other), []).append(number)
    assert len(pairs) > 20
    for giver, taker in pairs:
        changed = list(result.instructions)
        a, b = changed[giver], changed[taker]
        changed[giver] = a.replace(push=a.push & ~(1 << b.unit))
        changed[taker] = b.replace(pop=b.pop & ~(1 << a.unit))
        with pytest.raises(ProgramError, match="must be ordered by tokens"):
            verify(
                Program(TINY, tuple(changed), result.constants, result.region_bytes), zeroed=True
            )


def test_counters_do_not_overflow() -> None:
    """LOAD could run far ahead of a GEMM that waits for each of its loads."""
    count = 9
    units = [*[Unit.LOAD] * count, *[Unit.GEMM] * count]
    hazards = [(NO_INSTRUCTION,) * 4] * count
    hazards += [(number, *(NO_INSTRUCTION,) * 3) for number in range(count)]
    assert find_waits(units, hazards, 8).num_tokens == count
    waits = find_waits(units, hazards, 2)
    # At most three are outstanding: waiting for a later LOAD implies the earlier ones.
    assert waits.num_hazards == count and waits.num_tokens <= 3
    instructions = [
        Instruction.of(Opcode.LOAD if unit is Unit.LOAD else Opcode.GEMM, pop=pop, push=push)
        for unit, (pop, push) in zip(units, waits.masks(), strict=True)
    ]
    narrow = TINY.replace(name="narrow", token_bits=2)
    verify(Program(narrow, (*instructions, Instruction.of(Opcode.FINISH))), zeroed=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("LOAD base=inputs blocks=1 rows=1 cols=99\nFINISH", "must stay within inputs"),
        ("LOAD memory=UOP_ALU base=inputs blocks=1 rows=1 cols=1\nFINISH", "within the constants"),
        ("LOAD memory=UOP_ALU blocks=1 rows=1 cols=65\nFINISH", "within the constants"),
        ("LOAD row=511 blocks=1 rows=1 cols=2\nFINISH", "must stay below 512 rows"),
    ],
)
def test_what_does_not_exist_is_named(text: str, message: str) -> None:
    with pytest.raises(ProgramError, match=message) as error:
        conflicts(program(text))
    assert "instruction 0 (LOAD): " in str(error.value)
