"""Rule 7 of the verifier: no row is read that nothing wrote, as scratchpads keep old data."""

from dataclasses import replace

import numpy as np
import pytest

from bench.correctness.random_runs import every_variant
from daedal.common.errors import ProgramError, VerificationError
from daedal.isa.assembly import assemble
from daedal.isa.effects import effects
from daedal.isa.footprints import Footprints
from daedal.isa.instruction import Instruction, reads_destination
from daedal.isa.microcode import UopArray, encode_uops, expand
from daedal.isa.program import Program
from daedal.isa.random_programs import random_program
from daedal.isa.scratchpad import Memory
from daedal.isa.semantics import State, execute
from daedal.isa.table import Opcode, OutMemory, Unit
from daedal.isa.variant import Variant, load_variant
from daedal.isa.verifier import verify
from daedal.isa.written_rows import WrittenRows
from daedal.sim.functional.device import FunctionalDevice

TINY = load_variant("tiny")
LOAD = "LOAD memory={} base=inputs row={} blocks=1 rows=1 cols={}\n"
UOPS = "LOAD memory=UOP_GEMM blocks=1 rows=1 cols=1\nLOAD memory=UOP_ALU blocks=1 rows=1 cols=1\n"
LOOPS = "uop_end=1 extent0=1 extent1=1"
STORE = "STORE memory={} base=outputs blocks=1 rows=1 cols={}"


def program(text: str, constants: bytes = bytes(256)) -> Program:
    """The instructions of `text` one after the other, whatever their units."""
    items = [*assemble(f"{text}\nFINISH")]
    for before, after in zip(range(len(items) - 2), range(1, len(items) - 1), strict=True):
        if items[before].unit is not items[after].unit:
            items[after] = items[after].replace(pop=1 << items[before].unit)
            items[before] = items[before].replace(push=1 << items[after].unit)
    return Program(TINY, tuple(items), constants, (256, 4096, 4096, 256))


MULTIPLY = f"{UOPS}{LOAD.format('INP', 0, 4)}{LOAD.format('WGT', 0, 4)}"


@pytest.mark.parametrize(
    ("text", "row"),
    [
        (STORE.format("OUT", 1), "row 0 of scratchpad 'out'"),
        (f"{LOAD.format('ACC', 0, 2)}{STORE.format('ACC', 3)}", "row 2 of scratchpad 'acc'"),
        (f"{UOPS}{LOAD.format('WGT', 0, 1)}GEMM {LOOPS} extent2=1", "row 0 of scratchpad 'inp'"),
        (f"{UOPS}{LOAD.format('INP', 0, 1)}GEMM {LOOPS} extent2=1", "row 0 of scratchpad 'wgt'"),
        (f"{MULTIPLY}GEMM {LOOPS} extent2=1", "row 0 of scratchpad 'acc'"),
        (f"{MULTIPLY}GEMM {LOOPS} extent2=1 overwrite=1", "row 0 of scratchpad 'acc'"),
        (f"{UOPS}ALU operation=MOV {LOOPS} extent2=1 src_base=5", "row 5 of scratchpad 'acc'"),
        (
            f"{UOPS}{LOAD.format('ACC', 1, 1)}ALU operation=ADD {LOOPS} extent2=1 src_base=1 "
            "destination=ACC",
            "row 0 of scratchpad 'acc'",
        ),
        (
            f"{UOPS}{LOAD.format('ACC', 0, 1)}ALU operation=REQUANTIZE {LOOPS} extent2=1",
            "row 0 of scratchpad 'par'",
        ),
    ],
)
def test_a_row_that_nothing_wrote_is_refused(text: str, row: str) -> None:
    checked = program(text)
    verify(checked, zeroed=True)
    with pytest.raises(VerificationError) as caught:
        verify(checked)
    assert f"every row that is read must be written before; {row} is not" in str(caught.value)


FIRST = encode_uops(TINY, Unit.GEMM, {"first": [1]}).tobytes().ljust(256, b"\0")


@pytest.mark.parametrize(
    ("text", "constants"),
    [
        (f"{LOAD.format('ACC', 0, 2)}{STORE.format('ACC', 2)}", bytes(256)),
        (
            "LOAD memory=ACC base=inputs blocks=1 pad_top=1 pad_left=2\n" + STORE.format("ACC", 2),
            bytes(256),
        ),
        # The first product of each row overwrites it; a loop without factor repeats the row.
        (f"{MULTIPLY}GEMM {LOOPS} extent2=3 overwrite=1\n{STORE.format('ACC', 1)}", FIRST),
        # Each step reads what the step before wrote.
        (
            f"{UOPS}{LOAD.format('ACC', 0, 1)}ALU operation=ADD use_immediate=1 immediate=3 {LOOPS}"
            f" extent2=7 dst_base=1 dst_factor2=1 src_factor2=1 destination=ACC\n"
            + STORE.format("ACC", 8),
            bytes(256),
        ),
        (f"{UOPS}ALU operation=MOV use_immediate=1 {LOOPS} extent2=1\n{STORE.format('OUT', 1)}",
         bytes(256)),
    ],
)  # fmt: skip
def test_what_a_program_writes_itself_may_be_read(text: str, constants: bytes) -> None:
    verify(program(text, constants))


def test_rows_of_the_setup_are_written() -> None:
    """A launch that leaves the setup out follows one that ran it."""
    load = "LOAD memory=WGT row=0 blocks=1 rows=1 cols=2\n"
    rest = f"{UOPS}{LOAD.format('INP', 0, 2)}GEMM {LOOPS} extent2=2 overwrite=1 wgt_factor2=1"
    whole = replace(program(load + rest, FIRST), setup=0)
    items = list(whole.instructions)
    items[0] = items[0].replace(push=0)
    verify(replace(whole, instructions=tuple(items), setup=1))
    with pytest.raises(VerificationError, match="row 0 of scratchpad 'wgt' is not"):
        verify(replace(whole, instructions=tuple(items), setup=1).repeated)


def test_the_data_of_another_program_is_out_of_reach() -> None:
    """Without the rule a STORE returns what another program has loaded."""
    device = FunctionalDevice(TINY, kernels=False)
    bases = [device.alloc(4096) for _ in range(4)]
    secret = bytes(range(1, 65))
    device.write(bases[1], secret)
    device.launch(program(LOAD.format("ACC", 0, 2)), bases)
    thief = program(STORE.format("ACC", 2))
    device.launch(thief, bases)
    assert device.read(bases[2], 64) == secret
    with pytest.raises(VerificationError, match="must be written before"):
        verify(thief)


def unwritten(written: dict[Memory, set[int]], item: Instruction, uops: UopArray | None) -> bool:
    """Step by step: whether it reads a row that is not in `written`; adds the rows it writes."""
    found = False
    for access in effects(TINY, item, uops):
        rows, known = set(access.rows.tolist()), written[access.memory]
        in_steps = access.memory is Memory.ACC and item.opcode in (Opcode.GEMM, Opcode.ALU)
        if access.write:
            known |= rows
        elif not in_steps and access.memory not in (Memory.UOP_GEMM, Memory.UOP_ALU):
            found |= not rows <= known
        elif in_steps and uops is not None:
            found |= bool(depends(item, uops) - known)
    return found


def depends(item: Instruction, uops: UopArray) -> set[int]:
    """Accumulator rows whose old contents an instruction uses."""
    steps = expand(TINY, item, uops)
    rows = {name: index.tolist() for name, index in steps.rows.items()}
    if item.opcode is Opcode.GEMM:
        fresh = {row for row, new in zip(rows["acc"], steps.restart, strict=True) if new}
        return set(rows["acc"]) - fresh
    needs: set[int] = set()
    written: set[int] = set()
    for dst, src in zip(rows["dst"], rows["src"], strict=True):
        reads = {src} | ({dst} if reads_destination(item) else set())
        needs |= reads - written
        if item.destination == OutMemory.ACC:
            written.add(dst)
    return needs


@pytest.mark.parametrize("seed", range(8))
def test_random_programs_against_their_steps(seed: int) -> None:
    drawn = random_program(TINY, seed, length=60).program
    footprints = Footprints(drawn)
    rows = WrittenRows(footprints)
    state, memory = State(TINY), np.zeros(sum(drawn.region_bytes), dtype=np.uint8)
    memory[: len(drawn.constants)] = np.frombuffer(drawn.constants, np.uint8)
    bases = np.cumsum([0, *drawn.region_bytes[:3]]).tolist()
    written: dict[Memory, set[int]] = {item: set() for item in Memory}
    seen = {False: 0, True: 0}
    for number, item in enumerate(drawn.instructions):
        touches = footprints.of(item)
        expected = unwritten(written, item, state.uops.get(item.unit))
        try:
            rows.follow(item, touches)
            refused = False
        except ProgramError:
            rows.follow(item, [touch for touch in touches if touch.write])
            refused = True
        assert refused == expected, f"instruction {number}"
        seen[refused] += 1
        if item.opcode is Opcode.LOAD:
            execute(state, item, memory, bases, drawn.region_words)
    assert all(seen.values()), "the programs show both"


@pytest.mark.parametrize("name", every_variant())
def test_overwritten_rows_are_those_of_restarting_steps(name: str) -> None:
    variant: Variant = every_variant()[name]
    drawn = random_program(variant, 3, length=60).program
    footprints = Footprints(drawn)
    for item in drawn.instructions:
        footprints.of(item)
        if item.opcode is Opcode.GEMM:
            steps = footprints.steps(item)
            assert steps is not None
            expected = np.unique(steps.rows["acc"][steps.restart])
            assert footprints.overwritten(item).tolist() == expected.tolist()
