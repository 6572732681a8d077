"""The sequencer against `isa.microcode.expand`, with gaps on both sides."""

import numpy as np
import pytest

from daedal.hw.issue.sequencer import Sequencer
from daedal.isa.instruction import Instruction
from daedal.isa.microcode import decode_uops, encode_uops, expand, row_limits
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.semantics import State
from daedal.isa.table import LOOPS, LoadMemory, Opcode, Unit
from daedal.isa.variant import Variant, load_variant
from tests.hw.compute_bench import fill_words, issue_word, simulate

TINY = load_variant("tiny")
VARIANTS = {"tiny": TINY, "bus128": TINY.replace(data_bits=128, block_in=16, block_out=16)}
UOPS = 8


def random_instruction(
    variant: Variant, opcode: Opcode, words: np.ndarray, rng: np.random.Generator
) -> Instruction:
    """One whose rows all exist; some have nothing to do."""
    names = [name for name in decode_uops(variant, Unit[opcode.name], words) if name != "first"]
    fields = {f"{name}_base": int(rng.integers(4)) for name in names}
    for level in range(LOOPS):
        fields[f"extent{level}"] = int(rng.integers(0, 4)) if rng.random() < 0.6 else 1
        for name in names:
            fields[f"{name}_factor{level}"] = int(rng.integers(3)) if name != "par" else 0
    begin, end = rng.integers(0, UOPS, 2).tolist()
    extra = {"overwrite": int(rng.integers(2))} if opcode is Opcode.GEMM else {"destination": 1}
    return Instruction.of(opcode, uop_begin=begin, uop_end=end, push=1, **fields, **extra)


def steps_of(variant: Variant, program: list[Instruction], words: np.ndarray) -> list[tuple]:
    """(instruction, rows, restart, last, skip) of every step, by the definition."""
    result = []
    for number, instruction in enumerate(program):
        expansion = expand(variant, instruction, words)
        names = list(row_limits(variant, instruction))
        for k in range(len(expansion)):
            rows = tuple(int(expansion.rows[name][k]) for name in names)
            last = k == len(expansion) - 1
            result.append((number, rows, bool(expansion.restart[k]), last, False))
        if not len(expansion):
            result.append((number, (), False, True, True))
    return result


def run_sequencer(
    variant: Variant, opcode: Opcode, program: list[Instruction], state: State, stall: float
) -> tuple[list[tuple], list[int]]:
    """Steps that the hardware makes, and the cycles in which it made them."""
    unit = Unit[opcode.name]
    dut = Sequencer(variant=variant, opcode=opcode, controls=())
    rng = np.random.default_rng(4)
    target = LoadMemory.UOP_GEMM if unit is Unit.GEMM else LoadMemory.UOP_ALU
    per_row = scratchpad(variant, target.memory).elements
    names = list(row_limits(variant, program[0]))
    seen: list[tuple] = []
    cycles: list[int] = []
    filled = False

    async def source(ctx) -> None:
        nonlocal filled
        for word in fill_words(state, target, range(UOPS // per_row)):
            ctx.set(dut.fill.p, word)
            ctx.set(dut.fill.valid, 1)
            await ctx.tick()
        ctx.set(dut.fill.valid, 0)
        filled = True
        for number, instruction in enumerate(program):
            while rng.random() < stall:
                await ctx.tick()
            ctx.set(dut.issue.p.as_value(), issue_word(variant, instruction, number))
            ctx.set(dut.issue.valid, 1)
            await ctx.tick().until(dut.issue.ready)
            ctx.set(dut.issue.valid, 0)

    async def sink(ctx) -> None:
        now = 0
        waiting = None
        while len(seen) == 0 or not (seen[-1][0] == len(program) - 1 and seen[-1][3]):
            ready = filled and rng.random() >= stall
            ctx.set(dut.steps.ready, ready)
            _, _, valid, step = await ctx.tick().sample(dut.steps.valid, dut.steps.p)
            now += 1
            if waiting is not None:
                assert valid and step == waiting, "a step must stay until it is taken"
            waiting = step if valid and not ready else None
            if valid and ready:
                rows = () if step.skip else tuple(step.index[name] for name in names)
                restart = bool(step.restart) and not step.skip
                assert not step.out_of_range
                assert step.retire.push == 1
                seen.append((step.retire.index, rows, restart, bool(step.last), bool(step.skip)))
                cycles.append(now)

    simulate(dut, source, sink)
    return seen, cycles


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("opcode", [Opcode.GEMM, Opcode.ALU])
@pytest.mark.parametrize("stall", [0.0, 0.4])
def test_equals_expansion(name: str, opcode: Opcode, stall: float) -> None:
    """Row numbers, overwrite decisions and ends of random instructions, empty ones included."""
    variant = VARIANTS[name]
    unit = Unit[opcode.name]
    rng = np.random.default_rng(9)
    state = State(variant)
    fields = {key: rng.integers(0, 4, UOPS) for key in row_names(variant, opcode)}
    if unit is Unit.GEMM:
        fields["first"] = rng.integers(0, 2, UOPS)
    words = encode_uops(variant, unit, fields)
    state.uops[unit][:UOPS] = words
    table = state.uops[unit]
    program = [random_instruction(variant, opcode, words, rng) for _ in range(80)]
    expected = steps_of(variant, program, table)
    assert sum(not skip for *_, skip in expected) > 100
    assert sum(skip for *_, skip in expected) > 5
    seen, cycles = run_sequencer(variant, opcode, program, state, stall)
    assert seen == expected
    if not stall:
        assert cycles[-1] - cycles[0] == len(seen) - 1, "a bubble between steps"


def row_names(variant: Variant, opcode: Opcode) -> list[str]:
    """Micro-op fields that are row numbers."""
    return list(row_limits(variant, Instruction.of(opcode)))


def test_opcode_is_checked() -> None:
    """LOAD has no micro-ops."""
    with pytest.raises(ValueError, match="must be GEMM or ALU, not LOAD"):
        Sequencer(variant=TINY, opcode=Opcode.LOAD, controls=())


def test_scratchpad_has_uops_for_a_full_range() -> None:
    """uop_end may equal the number of micro-ops: the last one is used, nothing is out of range."""
    state = State(TINY)
    depth = scratchpad(TINY, Memory.UOP_GEMM).depth_rows
    program = [
        Instruction.of(
            Opcode.GEMM, uop_begin=depth - 1, uop_end=depth, extent0=1, extent1=1, extent2=2, push=1
        )
    ]
    seen, _ = run_sequencer(TINY, Opcode.GEMM, program, state, 0.0)
    assert [(last, skip) for *_, last, skip in seen] == [(False, False), (True, False)]
