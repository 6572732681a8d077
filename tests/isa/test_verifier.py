"""The verifier: hand-written violations, and every token of random programs taken away in turn."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations

import pytest

from daedal.common.errors import VerificationError
from daedal.isa.assembly import assemble
from daedal.isa.instruction import Instruction
from daedal.isa.program import Program
from daedal.isa.random_programs import random_program
from daedal.isa.table import Opcode, Unit
from daedal.isa.variant import load_variant
from daedal.isa.verifier import VerificationReport
from daedal.isa.verifier import verify as verify_all
from tests.support.interleaving import UNITS, Interleaver, preferring

TINY = load_variant("tiny")


def verify(program: Program) -> VerificationReport:
    """All rules but that on rows which nothing wrote, which has tests of its own."""
    return verify_all(program, zeroed=True)


def program(text: str) -> Program:
    return Program(TINY, tuple(assemble(text)), bytes(256), (256, 256, 256, 256))


LOAD = "LOAD memory=UOP_GEMM blocks=1 rows=1 cols=1 push=GEMM\n"
GEMM = "GEMM uop_end=1 extent0=1 extent1=1 extent2=1"
TAPS = f"{LOAD}{GEMM} pop=LOAD mode=DEPTHWISE3\n"
STORE = "STORE memory=ACC base=outputs blocks=1 rows=1 cols=1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a program must end with FINISH"),
        ("FINISH\nFINISH", "FINISH must be the last instruction, not number 0"),
        ("FINISH pop=LOAD", "FINISH must carry no tokens"),
        ("FINISH push=LOAD", "FINISH must carry no tokens"),
        (f"{GEMM} pop=LOAD\nFINISH", "instruction 0 (GEMM) finds none from LOAD"),
        (f"{LOAD}FINISH", "no token may be left at FINISH, but 1 from LOAD to GEMM"),
        (
            f"{LOAD}{GEMM} pop=LOAD\n{STORE}\nFINISH",
            "instruction 2 (STORE) reads row 0 of scratchpad 'acc' while instruction 1 (GEMM)",
        ),
        (
            f"{LOAD}{GEMM} pop=LOAD\nLOAD memory=UOP_GEMM blocks=1 rows=1 cols=1\nFINISH",
            "instruction 2 (LOAD) writes micro-op 0 of scratchpad 'uop_gemm' while instruction 1",
        ),
        (
            "STORE base=workspace blocks=1 rows=1 cols=1 offset_beats=2\n"
            "LOAD base=workspace blocks=1 rows=1 cols=3\nFINISH",
            "instruction 1 (LOAD) reads bus word 2 of workspace (bytes 16 to 23) while instruction "
            "0 (STORE) may still use it",
        ),
        (
            "STORE blocks=1 rows=1 cols=1\nFINISH",
            "0 (STORE): STORE must not write constants",
        ),
        ("LOAD blocks=1 rows=1 cols=33\nFINISH", "must stay within constants of 256 bytes"),
        ("LOAD memory=WGT blocks=1 rows=1 pad_top=1\nFINISH", "LOAD may pad only INP, ACC"),
        ("LOAD row=511 blocks=1 rows=1 cols=2\nFINISH", "must stay below 512 rows of scratchpad"),
        (f"{GEMM}\nFINISH", "every micro-op must be loaded before it is used; micro-op 0 of GEMM"),
        ("LOAD memory=UOP_ALU base=inputs blocks=1 rows=1 cols=1\nFINISH", "must be loaded from"),
        ("LOAD pop=LOAD\nFINISH", "LOAD.pop must name other units, not its own"),
        (
            f"{TAPS}LOAD memory=INP row=2 blocks=1 rows=1 cols=1\nFINISH",
            "instruction 2 (LOAD) writes row 2 of scratchpad 'inp' while instruction 1 (GEMM)",
        ),
        (
            f"{TAPS[:-1]} inp_base=5\nLOAD memory=INP row=3 blocks=1 rows=1 cols=4\nFINISH",
            "instruction 2 (LOAD) writes row 5 of scratchpad 'inp' while instruction 1 (GEMM)",
        ),
        (f"{TAPS[:-1]} inp_base=510\nFINISH", "GEMM.inp must stay below 510 rows, not reach 510"),
        (
            f"{TAPS[:-1]} wgt_base=14\nFINISH",
            "GEMM.wgt must name 3 vectors of one weight row of 8, not vector 14 and those after",
        ),
    ],
)
def test_violations_are_named(text: str, message: str) -> None:
    with pytest.raises(VerificationError) as caught:
        verify(program(text))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        (Instruction(Opcode.LOAD, {"cols": 1 << 10}), "LOAD.cols must be 0 to 1023, not 1024"),
        (Instruction(Opcode.LOAD, {"rows": -1}), "LOAD.rows must be 0 to 1023, not -1"),
        (Instruction(Opcode.LOAD, {"memory": 7}), "LOAD.memory must be one of INP = 0, WGT = 1"),
        (
            Instruction(Opcode.LOAD, {"pad_value": 1 << 15}),
            "LOAD.pad_value must be -32768 to 32767",
        ),
        (Instruction(Opcode.STORE, {"pad_top": 1}), "STORE has no field 'pad_top'"),
        (Instruction(Opcode.ALU, {"opcode": 3}), "ALU has no field 'opcode'"),
        (Instruction(Opcode.GEMM, {"push": 1 << Unit.GEMM}), "GEMM.push must name other units"),
        (Instruction(Opcode.GEMM, {"pop": 16}), "GEMM.pop must be 0 to 15, not 16"),
    ],
)
def test_what_cannot_be_encoded_is_refused(instruction: Instruction, message: str) -> None:
    with pytest.raises(VerificationError) as caught:
        verify(Program(TINY, (instruction, Instruction.of(Opcode.FINISH))))
    opcode = instruction.opcode.name
    assert str(caught.value).startswith(f"instruction 0 ({opcode}): {message}")


def test_fields_of_the_last_instruction_count_too() -> None:
    with pytest.raises(VerificationError, match=r"FINISH\.tag must be 0 to 65535"):
        verify(Program(TINY, (Instruction(Opcode.FINISH, {"tag": 1 << 16}),)))


def test_an_ordered_program_passes() -> None:
    report = verify(program(f"{LOAD}{GEMM} pop=LOAD push=STORE\n{STORE} pop=GEMM\nFINISH"))
    assert (report.instructions, report.tokens, report.most_tokens) == (4, 2, 1)


def test_three_taps_read_three_rows_and_no_more() -> None:
    """Rows on both sides of them, and another weight row, may be written meanwhile."""
    load = "LOAD memory={} row={} blocks=1 rows=1 cols=1\n"
    taps = f"{TAPS[:-1]} inp_base=5 wgt_base=13\n"
    near = [load.format(*place) for place in (("INP", 4), ("INP", 8), ("WGT", 0), ("WGT", 2))]
    verify(program(taps + "".join(near) + "FINISH"))
    for place in (("INP", 5), ("INP", 6), ("INP", 7), ("WGT", 1)):
        with pytest.raises(VerificationError, match="must be ordered by tokens"):
            verify(program(taps + load.format(*place) + "FINISH"))


SETUP = "LOAD memory=WGT row=2 blocks=1 rows=1 cols=2"


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (f"{SETUP} base=inputs", "", "must be LOADs of constants without tokens; instruction 0"),
        (f"{SETUP} push=GEMM", "GEMM pop=LOAD", "LOADs of constants without tokens; instruction 0"),
        ("LOAD memory=UOP_ALU blocks=1 rows=1 cols=1", "", "LOADs of constants without tokens"),
        (STORE, "", "must be LOADs of constants without tokens; instruction 0 (STORE) is none"),
        (
            SETUP,
            "LOAD memory=WGT row=3 blocks=1 rows=1 cols=1",
            "instruction 1 (LOAD) writes rows of scratchpad 'wgt' that it has filled",
        ),
    ],
)
def test_a_setup_loads_what_stays(first: str, second: str, message: str) -> None:
    whole = program(f"{first}\n{second}\nFINISH")
    with pytest.raises(VerificationError) as caught:
        verify(replace(whole, setup=1))
    assert message in str(caught.value)
    if first == SETUP:
        verify(whole)


def test_rows_beside_those_of_the_setup_may_be_written() -> None:
    near = [f"LOAD memory={where} blocks=1 rows=1 cols=1" for where in ("WGT row=1", "INP row=2")]
    verify(replace(program("\n".join([SETUP, *near, "FINISH"])), setup=1))


def test_counter_overflow_needs_no_unlucky_timing() -> None:
    limit = (1 << TINY.units.token_bits) - 1
    text = "LOAD push=GEMM\n" * (limit + 1) + "GEMM pop=LOAD\n" * (limit + 1) + "FINISH"
    with pytest.raises(VerificationError, match=f"must stay within {limit}; LOAD can push"):
        verify(program(text))
    verify(program("LOAD push=GEMM\n" * limit + "GEMM pop=LOAD\n" * limit + "FINISH"))


@pytest.mark.parametrize(("known", "most"), [(1, 1), (0, 2)])
def test_a_pop_counts_when_it_is_surely_over(known: int, most: int) -> None:
    """LOAD gives a second token knowing of GEMM's first or second instruction, which took one."""
    push = ["", ""]
    push[known] = " push=LOAD"
    text = (
        f"LOAD push=GEMM\nGEMM{push[0]}\nGEMM pop=LOAD{push[1]}\n"
        "LOAD pop=GEMM push=GEMM\nGEMM pop=LOAD\nFINISH"
    )
    checked = program(text)
    assert verify(checked).most_tokens == most
    units = Interleaver(checked)
    assert max(units.run(preferring(order)).most_tokens for order in permutations(UNITS)) == most


def needs_order(instructions: Sequence, without: tuple[int, int]) -> bool:
    """Whether dropping the token pair leaves a race, by trying all that the verifier says."""
    producer, consumer = without
    changed = list(instructions)
    a, b = changed[producer], changed[consumer]
    changed[producer] = a.replace(push=a.push & ~(1 << b.unit))
    changed[consumer] = b.replace(pop=b.pop & ~(1 << a.unit))
    try:
        verify(Program(TINY, tuple(changed), BASE.constants, BASE.region_bytes))
    except VerificationError as error:
        assert "must be ordered by tokens" in str(error)
        return True
    return False


BASE = random_program(TINY, 7, length=40).program


def test_missing_tokens_are_found() -> None:
    """Every token flag dropped alone unbalances a program and is refused."""
    verify(BASE)
    flags = 0
    for index, instruction in enumerate(BASE.instructions):
        for mask in ("pop", "push"):
            for unit in range(4):
                if getattr(instruction, mask) >> unit & 1:
                    flags += 1
                    changed = list(BASE.instructions)
                    value = getattr(instruction, mask) & ~(1 << unit)
                    changed[index] = instruction.replace(**{mask: value})
                    with pytest.raises(VerificationError):
                        verify(Program(TINY, tuple(changed), BASE.constants, BASE.region_bytes))
    assert flags > 20


def test_most_token_pairs_of_a_random_program_are_needed() -> None:
    queues: dict[tuple[int, int], list[int]] = {}
    pairs = []
    for index, instruction in enumerate(BASE.instructions):
        for unit in range(4):
            if instruction.pop >> unit & 1:
                pairs.append((queues[unit, instruction.unit].pop(0), index))
        for unit in range(4):
            if instruction.push >> unit & 1:
                queues.setdefault((instruction.unit, unit), []).append(index)
    needed = sum(needs_order(BASE.instructions, pair) for pair in pairs)
    assert needed > len(pairs) // 3


@pytest.mark.parametrize("seed", range(20))
def test_random_programs_are_valid(seed: int) -> None:
    report = verify(random_program(TINY, seed).program)
    assert report.instructions > 20


@pytest.mark.parametrize("seed", range(6))
def test_most_tokens_is_what_some_interleaving_reaches(seed: int) -> None:
    """No more: a unit that is left for last takes only the tokens that it has to."""
    program = random_program(TINY, seed, length=80).program
    units = Interleaver(program)
    runs = [units.run(preferring(order)) for order in permutations(UNITS)]
    assert verify(program).most_tokens == max(run.most_tokens for run in runs)
