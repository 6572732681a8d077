"""`isa.semantics` against plain Python loops that share none of its code."""

import numpy as np
import pytest

from daedal.common.errors import ProgramError
from daedal.isa.instruction import Instruction
from daedal.isa.microcode import decode_uops, encode_uops
from daedal.isa.numerics import requantize
from daedal.isa.random_programs import random_program
from daedal.isa.semantics import State, execute
from daedal.isa.table import AluOp, GemmMode, LoadMemory, Opcode, OutMemory, Unit
from daedal.isa.variant import Variant, load_variant

TINY = load_variant("tiny")
VARIANTS = [
    TINY,
    TINY.replace(name="skewed", block_in=16, depthwise_taps=0, inp_bytes=8192, wgt_bytes=32768),
    TINY.replace(name="pair", batch=2, acc_bytes=16384, out_bytes=8192),
    TINY.replace(name="tables", batch=2, tables=4),
    TINY.replace("options", batch=2, tables=1, lane_reductions=True, wide_requantize=True),
    TINY.replace("operands", gemm_reads_out=True),
    TINY.replace("narrow", narrow_weights=True),
]


def wrapped(value: int, bits: int) -> int:
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


def naive_steps(instruction: Instruction, uops: dict[str, np.ndarray]) -> list[dict[str, int]]:
    steps = []
    for i0 in range(instruction.extent0):
        for i1 in range(instruction.extent1):
            for i2 in range(instruction.extent2):
                for u in range(instruction.uop_begin, instruction.uop_end):
                    step = {"first": int(uops["first"][u]) if "first" in uops else 0}
                    for name in uops:
                        if name != "first":
                            value = getattr(instruction, f"{name}_base") + int(uops[name][u])
                            for level, i in enumerate((i0, i1, i2)):
                                value += i * getattr(instruction, f"{name}_factor{level}")
                            step[name] = value
                    indices = (i0, i1, i2)
                    step["start"] = all(
                        indices[k] == 0
                        for k in range(3)
                        if getattr(instruction, f"acc_factor{k}", 1) == 0
                    )
                    steps.append(step)
    return steps


def naive_gemm(state: State, instruction: Instruction) -> None:
    array = state.variant.array
    uops = decode_uops(state.variant, Unit.GEMM, state.uops[Unit.GEMM])
    for step in naive_steps(instruction, uops):
        fresh = instruction.overwrite and step["first"] and step["start"]
        for b in range(array.batch):
            for o in range(array.block_out):
                total = 0 if fresh else int(state.acc[step["acc"], b, o])
                for tap in range((0, 1, 3, 0)[instruction.mode]):
                    row, vector = divmod(step["wgt"] + tap, array.block_out)
                    x = int(state.inp[step["inp"] + tap, b, o])
                    total += x * int(state.wgt[row, vector, o])
                if instruction.mode in (0, 3):
                    rows = state.out if instruction.mode == 3 else state.inp
                    for i in range(array.block_in):
                        x = int(rows[step["inp"], b, i])
                        total += x * int(state.wgt[step["wgt"], o, i])
                state.acc[step["acc"], b, o] = wrapped(total, array.accumulator_bits)


def rounded_shift(x: int, amount: int, even: bool) -> int:
    floor = x >> amount
    if not even or amount == 0:
        return floor
    rest, half = x - (floor << amount), 1 << (amount - 1)
    return floor + (rest > half or (rest == half and floor % 2 == 1))


def naive_operation(operation: AluOp, x: int, y: int) -> int:
    amount = wrapped(y, 7)
    if operation is AluOp.ADD:
        return x + y
    if operation is AluOp.SUB:
        return x - y
    if operation is AluOp.MUL:
        return wrapped(x, 18) * wrapped(y, 18)
    if operation is AluOp.MIN:
        return min(x, y)
    if operation is AluOp.MAX:
        return max(x, y)
    if operation is AluOp.MOV:
        return y
    if operation is AluOp.SHL:
        return x << amount if amount >= 0 else x >> -amount
    even = operation is AluOp.SHR_EVEN
    return rounded_shift(x, amount, even) if amount >= 0 else x << -amount


def naive_alu(state: State, instruction: Instruction) -> None:
    array = state.variant.array
    operation = AluOp(instruction.operation)
    uops = decode_uops(state.variant, Unit.ALU, state.uops[Unit.ALU])
    target, bits = (
        (state.acc, array.accumulator_bits)
        if instruction.destination
        else (state.out, array.output_bits)
    )
    limit = 1 << (array.output_bits - 1)
    for step in naive_steps(instruction, uops):
        sources = state.acc[step["src"]].copy()
        for b in range(array.batch):
            for c in range(array.block_out):
                source = int(sources[b, c])
                if operation in (AluOp.REQUANTIZE, AluOp.LOOKUP):
                    par = state.par
                    value = int(
                        requantize(
                            source,
                            par.bias[step["par"], c],
                            par.multiplier[step["par"], c],
                            par.shift[step["par"], c],
                            instruction.immediate,
                            instruction.low * 256 if instruction.wide else instruction.low,
                            instruction.high * 256 + 255 if instruction.wide else instruction.high,
                        )
                    )
                    if operation is AluOp.LOOKUP:
                        place = instruction.table * 256 + value % 256
                        value = int(state.tab[place // 32, place % 32])
                else:
                    if operation in (AluOp.SUM_LANES, AluOp.MAX_LANES):
                        lanes = sources[b].tolist()
                        if instruction.use_immediate:
                            lanes = [instruction.immediate] * len(lanes)
                        value = sum(lanes) if operation is AluOp.SUM_LANES else max(lanes)
                    elif instruction.use_immediate:
                        value = naive_operation(operation, source, instruction.immediate)
                    elif operation is AluOp.MOV:
                        value = source
                    else:
                        value = naive_operation(
                            operation, int(state.acc[step["dst"], b, c]), source
                        )
                    value = wrapped(value, array.accumulator_bits)
                    if instruction.saturate:
                        value = min(max(value, -limit), limit - 1)
                target[step["dst"], b, c] = wrapped(value, bits)


def fill(state: State, rng: np.random.Generator) -> None:
    array = state.variant.array
    extreme = -(1 << (array.input_bits - 1))
    for name, bits in (("inp", array.input_bits), ("wgt", array.weight_bits)):
        memory = getattr(state, name)
        memory[...] = rng.integers(-(1 << (bits - 1)), 1 << (bits - 1), memory.shape)
        memory[rng.random(memory.shape) < 0.1] = extreme
    low = -(1 << (array.accumulator_bits - 1))
    state.acc[...] = rng.integers(low, -low, state.acc.shape)
    narrow = rng.random(state.acc.shape) < 0.5
    state.acc[narrow] = rng.integers(-300, 300, int(narrow.sum()))
    state.par.bias[...] = rng.integers(low, -low, state.par.bias.shape)
    state.par.multiplier[...] = rng.integers(
        0, 1 << state.variant.units.multiplier_bits, state.par.bias.shape
    )
    state.par.shift[...] = rng.integers(0, 64, state.par.bias.shape)
    state.tab[...] = rng.integers(-(1 << 15), 1 << 15, state.tab.shape)


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_compute_instructions_match_plain_loops(variant: Variant) -> None:
    modes = set().union(*(modes_that_match_plain_loops(variant, seed) for seed in range(4)))
    assert modes == {int(mode) for mode in GemmMode.of(variant)}


def lookup(destination: OutMemory, table: int) -> State:
    """A state after LOOKUP of the accumulators 0 to 255, in rows of 8."""
    state = State(VARIANTS[3].replace("one", batch=1))
    state.tab[...] = np.arange(-200, 4 * 256 - 200).reshape(state.tab.shape)
    state.acc[:32] = np.arange(-128, 128).reshape(32, 1, 8)
    state.par.multiplier[...] = 1
    state.uops[Unit.ALU][:32] = encode_uops(
        state.variant, Unit.ALU, {"dst": range(32), "src": range(32), "par": [0] * 32}
    )
    instruction = Instruction.of(
        Opcode.ALU, operation=AluOp.LOOKUP, destination=destination, low=-100, high=127,
        uop_end=32, extent0=1, extent1=1, extent2=1, table=table,
    )  # fmt: skip
    execute(state, instruction, np.zeros(0, np.uint8), [0] * 4, [0] * 4)
    return state


@pytest.mark.parametrize("table", range(4))
def test_a_table_has_the_entries_of_results_0_to_127_first(table: int) -> None:
    """Bounds hold before the table: results below -100 take the entry of -100."""
    results = np.maximum(np.arange(-128, 128), -100)
    wanted = table * 256 - 200 + np.where(results < 0, results + 256, results)
    found = lookup(OutMemory.ACC, table).acc[:32].reshape(-1)
    np.testing.assert_array_equal(found, wanted)
    narrow = lookup(OutMemory.OUT, table).out[:32].reshape(-1)
    np.testing.assert_array_equal(narrow, (wanted + 128) % 256 - 128)


def test_tables_are_loaded_in_memory_order() -> None:
    state = State(VARIANTS[3])
    memory = np.arange(-500, 12, dtype="<i2").view(np.uint8)
    load = Instruction.of(
        Opcode.LOAD, memory=LoadMemory.TAB, base=1, row=8, blocks=1, rows=1, cols=16
    )
    execute(state, load, memory, [0] * 4, [0, 128, 0, 0])
    np.testing.assert_array_equal(state.tab[8:24].reshape(-1), np.arange(-500, 12))
    assert not state.tab[:8].any() and not state.tab[24:].any()


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        (
            Instruction.of(
                Opcode.ALU, operation=AluOp.LOOKUP, uop_end=1, extent0=1, extent1=1, extent2=1
            ),
            r"^ALU must compute what variant 'tiny' has, not LOOKUP$",
        ),
        (
            Instruction.of(Opcode.LOAD, memory=LoadMemory.TAB),
            r"^LOAD must fill a scratchpad of variant 'tiny', not TAB$",
        ),
    ],
)
def test_a_machine_without_tables_refuses_them(instruction: Instruction, message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        execute(State(TINY), instruction, np.zeros(8, np.uint8), [0] * 4, [1] * 4)


def modes_that_match_plain_loops(variant: Variant, seed: int) -> set[int]:
    """Compare the instructions of a random program; the modes of GEMM among them."""
    rng = np.random.default_rng(seed)
    case = random_program(variant, seed, length=60)
    ours, naive = State(variant), State(variant)
    memory = np.zeros(sum(case.program.region_bytes), dtype=np.uint8)
    size = case.program.region_bytes[0]
    memory[:size] = np.frombuffer(case.program.constants, dtype=np.uint8)
    bases = np.cumsum([0, *case.program.region_bytes[:3]]).tolist()
    kinds, modes = set(), set()
    for instruction in case.program.instructions:
        if instruction.opcode is Opcode.LOAD and instruction.memory in (5, 6):
            for state in (ours, naive):
                execute(state, instruction, memory, bases, case.program.region_words)
        if instruction.opcode not in (Opcode.GEMM, Opcode.ALU):
            continue
        fill(ours, rng)
        for name in ("inp", "wgt", "acc", "out", "tab"):
            getattr(naive, name)[...] = getattr(ours, name)
        for name in ("bias", "multiplier", "shift"):
            getattr(naive.par, name)[...] = getattr(ours.par, name)
        execute(ours, instruction, memory, bases, case.program.region_words)
        if instruction.opcode is Opcode.GEMM:
            naive_gemm(naive, instruction)
        else:
            naive_alu(naive, instruction)
        kinds.add((instruction.opcode, instruction.values.get("operation", 0)))
        modes.add(instruction.values.get("mode", 0))
        assert (ours.acc == naive.acc).all(), instruction
        assert (ours.out == naive.out).all(), instruction
    assert len(kinds) > 3
    return modes


def test_load_places_pads_around_each_plane() -> None:
    state = State(TINY)
    memory = (np.arange(4096) % 127).astype(np.uint8)
    load = Instruction.of(
        Opcode.LOAD, row=3, offset_beats=5, base=1, blocks=2, rows=2, cols=3,
        row_stride_beats=10, block_stride_beats=40, pad_top=1, pad_left=2, pad_right=1,
        pad_value=-7,
    )  # fmt: skip
    execute(state, load, memory, [0, 64, 0, 0], [0, 504, 0, 0])
    row = 3
    for block in range(2):
        for y in range(-1, 2):
            for x in range(-2, 4):
                expected = np.full((1, 8), -7)
                if y >= 0 and 0 <= x < 3:
                    at = 64 + 8 * (5 + 40 * block + 10 * y + x)
                    expected = memory[at : at + 8].astype(np.int8).reshape(1, 8)
                assert (state.inp[row] == expected).all(), (block, y, x)
                row += 1
    assert not state.inp[row:].any() and not state.inp[:3].any()


@pytest.mark.parametrize("opcode", [Opcode.LOAD, Opcode.STORE])
@pytest.mark.parametrize(("base", "fits"), [(0, True), (8, True), (16, False), (-8, False)])
def test_rows_stay_within_memory(opcode: Opcode, base: int, fits: bool) -> None:
    """The region is as large as it likes; of two rows only the last, or the first, is outside."""
    item = Instruction.of(opcode, blocks=1, rows=2, cols=1, row_stride_beats=1)
    memory = np.zeros(24, dtype=np.uint8)
    if fits:
        execute(State(TINY), item, memory, [base] * 4, [99] * 4)
        return
    with pytest.raises(ProgramError, match=f"{opcode.name} must stay within memory of 24 bytes"):
        execute(State(TINY), item, memory, [base] * 4, [99] * 4)
