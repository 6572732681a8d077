"""LOAD behind the read master and a random memory, against `isa.semantics`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from daedal.hw.interfaces import Activity
from daedal.isa.elements import from_memory
from daedal.isa.instruction import Instruction
from daedal.isa.numerics import wrap
from daedal.isa.registers import ErrorCode
from daedal.isa.scratchpad import Memory, scratchpad, scratchpads
from daedal.isa.semantics import State, execute
from daedal.isa.table import LoadMemory, Opcode, Unit
from daedal.isa.transfer import PADDABLE
from daedal.isa.variant import Variant, load_variant
from tests.hw.axi_slave import AxiSlave
from tests.hw.load.bench import BASES, MEMORY_BYTES, REGIONS, LoadBench, words_written
from tests.support.region_cases import RegionCase, region_cases

LINGER_CYCLES = 600
"""After an error: bursts in progress would have ended, and another instruction begun."""
TINY, VTA = load_variant("tiny"), load_variant("vta")
VARIANTS = {
    "tiny": TINY,
    "int16": TINY.replace(
        "int16", input_bits=16, output_bits=16, weight_bits=16, accumulator_bits=48
    ),
    "int4": VTA.replace("int4", input_bits=4, output_bits=4, weight_bits=4, wgt_bytes=32768),
    # Rows of INP of four bus words; "int16" has two, the others one.
    "batch": TINY.replace("batch", batch=4, depthwise_taps=0),
    "wide": VTA.replace(
        "wide",
        data_bits=128,
        block_out=32,
        depthwise_taps=0,
        wgt_bytes=32768,
        gemm_reads_out=False,
    ),
    "tables": TINY.replace("tables", tables=2),
    "narrow": TINY.replace("narrow", narrow_weights=True),
}


def random_load(variant: Variant, rng: np.random.Generator, number: int) -> Instruction:
    """A legal LOAD of each memory in turn; empty ones and ones that are all pad among them."""
    targets = LoadMemory.of(variant)
    target = targets[number % len(targets)]
    depth = scratchpad(variant, target.memory).depth_rows
    pads = [0, 0, 0, 0]
    if target in PADDABLE and rng.random() < 0.7:
        pads = [int(rng.integers(0, 3)) for _ in range(4)]
    while True:
        blocks, rows, cols = (int(rng.integers(0, 5)) for _ in range(3))
        total = blocks * (pads[0] + rows + pads[1]) * (pads[2] + cols + pads[3])
        if total <= min(depth, 64):
            break
    return Instruction.of(
        Opcode.LOAD,
        pop=int(rng.integers(0, 8)) * 2,
        push=int(rng.integers(0, 8)) * 2,
        mark=int(rng.integers(2)),
        tag=int(rng.integers(1 << 16)),
        memory=target,
        base=int(rng.integers(4)),
        row=int(rng.integers(0, depth - total + 1)),
        offset_beats=int(rng.integers(0, 100)),
        blocks=blocks,
        rows=rows,
        cols=cols,
        row_stride_beats=int(rng.integers(0, 160)),
        block_stride_beats=int(rng.integers(0, 400)),
        pad_top=pads[0],
        pad_bottom=pads[1],
        pad_left=pads[2],
        pad_right=pads[3],
        pad_value=int(rng.integers(-(1 << 15), 1 << 15)),
    )


def apply_fills(state: State, fills: list[dict[str, int]]) -> None:
    """What scratchpads and accumulators make of the fill port, in numpy."""
    variant = state.variant
    size = variant.bus_bytes
    raw = {
        memory: np.zeros((pad.depth_rows, pad.row_bytes), dtype=np.uint8)
        for memory, pad in scratchpads(variant).items()
    }
    for fill in fills:
        target = LoadMemory(fill["memory"])
        line = raw[target.memory][fill["row"]]
        word = np.frombuffer(fill["data"].to_bytes(size, "little"), dtype=np.uint8)
        if "columns" in fill:
            for beat in range(len(line) // size):
                if fill["columns"] >> beat & 1:
                    line[beat * size : (beat + 1) * size] = word
        elif fill["pad"]:
            assert target.memory is Memory.ACC
            line[:] = np.tile(word, len(line) // size)
        elif target is LoadMemory.ACC_NARROW:
            wide = scratchpad(variant, Memory.ACC).memory_bits // 8
            values = from_memory(word[None, :], variant.array.input_bits, signed=True)[0]
            start = fill["beat"] * len(values) * wide
            bytes_ = b"".join(int(v).to_bytes(wide, "little", signed=True) for v in values)
            line[start : start + len(bytes_)] = np.frombuffer(bytes_, dtype=np.uint8)
        elif target is LoadMemory.WGT_NARROW:
            values = from_memory(word[None, :], 4, signed=True)[0].astype(np.int8)
            line[2 * fill["beat"] * size : 2 * (fill["beat"] + 1) * size] = values.view(np.uint8)
        else:
            line[fill["beat"] * size : (fill["beat"] + 1) * size] = word
    for memory in raw.keys() & {Memory.INP, Memory.WGT, Memory.ACC, Memory.TAB}:
        pad = scratchpad(variant, memory)
        values = from_memory(raw[memory], pad.memory_bits, signed=True)
        array = getattr(state, memory.value)
        array[:] = wrap(values.reshape(array.shape), pad.element_bits)
    for unit, memory in ((Unit.GEMM, Memory.UOP_GEMM), (Unit.ALU, Memory.UOP_ALU)):
        state.uops[unit][:] = raw[memory].reshape(-1).view(np.uint64)
    pad = scratchpad(variant, Memory.PAR)
    entries = from_memory(raw[Memory.PAR], pad.memory_bits, signed=False, as_objects=True)
    acc_bits, m_bits = variant.array.accumulator_bits, variant.units.multiplier_bits
    for name, offset, bits in (
        ("bias", 0, acc_bits),
        ("multiplier", acc_bits, m_bits),
        ("shift", acc_bits + m_bits, 6),
    ):
        column = ((entries >> offset) & ((1 << bits) - 1)).astype(np.int64)
        getattr(state.par, name)[:] = wrap(column, bits) if name == "bias" else column


def assert_same(state: State, wanted: State) -> None:
    for name in ("inp", "wgt", "acc", "tab"):
        np.testing.assert_array_equal(getattr(state, name), getattr(wanted, name), err_msg=name)
    for unit in (Unit.GEMM, Unit.ALU):
        np.testing.assert_array_equal(state.uops[unit], wanted.uops[unit], err_msg=unit.name)
    for name in ("bias", "multiplier", "shift"):
        np.testing.assert_array_equal(getattr(state.par, name), getattr(wanted.par, name))


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.parametrize("gap", [0.0, 0.4])
@pytest.mark.parametrize("count", [4, pytest.param(40, marks=pytest.mark.slow)])
def test_scratchpads_equal_the_semantics(
    variant: Variant, gap: float, count: int, rng: np.random.Generator
) -> None:
    memory = rng.integers(0, 256, MEMORY_BYTES, dtype=np.uint8)
    instructions = [random_load(variant, rng, number) for number in range(count)]
    slave = AxiSlave(variant, memory, rng, read_latency=10, extra_latency=20, stall=gap / 2)
    bench = LoadBench(variant, instructions, slave, issue_gap=gap, fill_gap=gap)
    bench.until(lambda: len(bench.retired) == len(instructions))
    bench.run()
    state, wanted = State(variant), State(variant)
    for instruction in instructions:
        words = [size // variant.bus_bytes for size in REGIONS]
        execute(wanted, instruction, memory, BASES, words)
    apply_fills(state, bench.fills)
    assert_same(state, wanted)
    assert bench.errors == []
    assert bench.work == sum(not fill["pad"] for fill in bench.fills)
    assert bench.retired == [
        {"push": item.push, "mark": item.mark, "tag": item.tag, "index": number}
        for number, item in enumerate(instructions)
    ]


def word_count(variant: Variant, instruction: Instruction) -> int:
    """Bus words of a scratchpad that a load writes."""
    height = instruction.pad_top + instruction.rows + instruction.pad_bottom
    width = instruction.pad_left + instruction.cols + instruction.pad_right
    beats = scratchpad(variant, LoadMemory(instruction.memory).memory).row_beats(variant)
    return instruction.blocks * height * width * beats


@pytest.mark.parametrize("memory", [LoadMemory.INP, LoadMemory.ACC])
def test_retirement_waits_for_the_last_fill(memory: LoadMemory, rng: np.random.Generator) -> None:
    """Empty LOADs between others retire in their turn, each after its own fills."""
    acc = LoadMemory.ACC
    loads = [
        Instruction.of(Opcode.LOAD, memory=acc, blocks=1, rows=2, cols=3, row_stride_beats=7),
        Instruction.of(Opcode.LOAD, memory=memory, blocks=0, rows=2, cols=3, row=6),
        Instruction.of(Opcode.LOAD, memory=memory, blocks=0, rows=2, cols=3, row=6),
        Instruction.of(Opcode.LOAD, memory=acc, blocks=1, rows=1, cols=1, row=20),
        Instruction.of(Opcode.LOAD, memory=memory, blocks=2, row=6, pad_top=2, pad_left=2),
        Instruction.of(Opcode.LOAD, memory=memory, blocks=1, rows=1, cols=1, row=14),
        Instruction.of(Opcode.LOAD, memory=memory, blocks=1, rows=1, cols=1, row=15),
    ]
    slave = AxiSlave(VTA, np.zeros(MEMORY_BYTES, dtype=np.uint8), rng)
    bench = LoadBench(VTA, loads, slave, fill_gap=0.6)
    bench.until(lambda: len(bench.retired) == len(loads))
    bench.run()
    totals = np.cumsum([word_count(VTA, load) for load in loads])
    assert [record["index"] for record in bench.retired] == list(range(len(loads)))
    assert (np.array(bench.words_at_retirement) >= totals).all()
    assert words_written(VTA, bench.fills) == totals[-1]


def run_to_error(
    instructions: list[Instruction], slave: AxiSlave, regions: Sequence[int] = REGIONS
) -> LoadBench:
    bench = LoadBench(TINY, instructions, slave, regions=regions)
    bench.until(lambda: bool(bench.errors))

    async def linger(ctx: Any) -> None:
        await ctx.tick().repeat(LINGER_CYCLES)

    bench.foreground(linger)
    bench.run()
    return bench


GOOD = Instruction.of(Opcode.LOAD, blocks=1, rows=1, cols=4)


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        ({"memory": LoadMemory.TAB, "blocks": 1}, ErrorCode.ILLEGAL_INSTRUCTION),
        ({"memory": LoadMemory.WGT, "blocks": 1, "pad_left": 1}, ErrorCode.ILLEGAL_INSTRUCTION),
        ({"row": 500, "blocks": 2, "rows": 1, "cols": 7}, ErrorCode.ROW_RANGE),
        ({"memory": LoadMemory.PAR, "row": 20, "blocks": 1, "rows": 1, "cols": 1},
         ErrorCode.ROW_RANGE),
        ({"row": 511, "blocks": 1, "pad_top": 2, "pad_left": 1}, ErrorCode.ROW_RANGE),
    ],
)  # fmt: skip
def test_illegal_loads_are_reported(
    bad: dict[str, int], code: ErrorCode, rng: np.random.Generator
) -> None:
    slave = AxiSlave(TINY, np.zeros(MEMORY_BYTES, dtype=np.uint8), rng, read_latency=4)
    bench = run_to_error([GOOD, Instruction.of(Opcode.LOAD, **bad), GOOD], slave)
    assert bench.errors == [(code, 1)]
    assert [record["index"] for record in bench.retired] == [0]
    for fill in bench.fills:
        assert fill["row"] < scratchpad(TINY, LoadMemory(fill["memory"]).memory).depth_rows


INP_ROWS = scratchpad(TINY, Memory.INP).depth_rows


@pytest.mark.parametrize(
    "lines",
    [{"cols": INP_ROWS, "pad_top": 2}, {"cols": 2 * INP_ROWS - 1, "pad_left": 1, "pad_top": 1}],
)
def test_data_far_beyond_never_comes_back(lines: dict[str, int], rng: np.random.Generator) -> None:
    """Data behind pads of exactly twice the scratchpad, in two steps and in one: no word of it is
    written to row 0."""
    slave = AxiSlave(TINY, np.zeros(MEMORY_BYTES, dtype=np.uint8), rng, read_latency=4)
    far = Instruction.of(Opcode.LOAD, blocks=1, rows=1, **lines)
    bench = run_to_error([GOOD, far], slave)
    assert bench.errors == [(ErrorCode.ROW_RANGE, 1)]
    assert bench.work == GOOD.cols * scratchpad(TINY, Memory.INP).row_beats(TINY)


@pytest.mark.parametrize("case", region_cases(TINY, 64, 4), ids=str)
def test_words_outside_the_region_are_not_read(case: RegionCase, rng: np.random.Generator) -> None:
    """Of any base; the rows before are, and the instruction before is done."""
    base, words, line = int(rng.integers(4)), 64, 4
    regions = [0 if number != base else words * TINY.bus_bytes for number in range(4)]
    loads = [
        Instruction.of(Opcode.LOAD, base=base, cols=line, **fields)
        for fields in ({"blocks": 1, "rows": 1}, case.fields, {"blocks": 1, "rows": 1})
    ]
    slave = AxiSlave(TINY, np.zeros(MEMORY_BYTES, dtype=np.uint8), rng, read_latency=4)
    if case.inside is None:
        bench = LoadBench(TINY, loads, slave, regions=regions)
        bench.until(lambda: len(bench.retired) == len(loads))
        bench.run()
        assert bench.errors == []
    else:
        bench = run_to_error(loads, slave, regions)
        assert bench.errors == [(ErrorCode.MEMORY_RANGE, 1)]
        assert [record["index"] for record in bench.retired] == [0]
        assert bench.work == slave.beats_read == (1 + case.inside) * line
    for burst in slave.bursts_read:
        assert BASES[base] <= burst.address
        assert burst.address + burst.beats * TINY.bus_bytes <= BASES[base] + words * TINY.bus_bytes


@pytest.mark.parametrize(
    ("between", "told"), [(5, ["front", "filler"]), (6, ["filler"]), (8, ["filler", "front"])]
)
def test_errors_of_filler_and_front_are_told_one_by_one(
    between: int, told: list[str], rng: np.random.Generator
) -> None:
    """A word fails while the front comes to a row outside; in one cycle the earlier load wins."""
    slave = AxiSlave(TINY, np.zeros(MEMORY_BYTES, dtype=np.uint8), rng, read_errors={8 * 3: 2})
    loads = [GOOD, *[GOOD.replace(offset_beats=8)] * between, GOOD.replace(base=1)]
    bench = run_to_error(loads, slave, [MEMORY_BYTES, 0, 0, 0])
    filler, front = (ErrorCode.READ_SLVERR, 0), (ErrorCode.MEMORY_RANGE, between + 1)
    assert bench.errors == [{"filler": filler, "front": front}[name] for name in told]


@pytest.mark.parametrize(
    ("response", "code"), [(2, ErrorCode.READ_SLVERR), (3, ErrorCode.READ_DECERR)]
)
def test_bus_errors_name_the_instruction(
    response: int, code: ErrorCode, rng: np.random.Generator
) -> None:
    errors = {0x100 + 8 * 3: response}
    slave = AxiSlave(TINY, np.zeros(MEMORY_BYTES, dtype=np.uint8), rng, read_errors=errors)
    second = Instruction.of(Opcode.LOAD, blocks=1, rows=1, cols=4, offset_beats=0x100 // 8)
    bench = run_to_error([GOOD, second, GOOD], slave)
    assert bench.errors == [(code, 1)]
    assert [record["index"] for record in bench.retired] == [0]


def rate(instructions: list[Instruction], rng: np.random.Generator) -> tuple[int, int, LoadBench]:
    """Run on `vta` with 64 cycles of latency: (useful fill cycles, cycles)."""
    slave = AxiSlave(VTA, np.zeros(1 << 18, dtype=np.uint8), rng, read_latency=64)
    bench = LoadBench(VTA, instructions, slave)
    bench.until(lambda: len(bench.retired) == len(instructions))
    cycles = bench.run()
    return slave.beats_read, cycles, bench


def inp(rows: int, cols: int, count: int, stride: int, **pads: int) -> list[Instruction]:
    """`count` INP tiles of strided rows of `cols` x 16 bytes."""
    return [
        Instruction.of(
            Opcode.LOAD, blocks=1, rows=rows, cols=cols, row_stride_beats=stride, **pads
        )
        for _ in range(count)
    ]  # fmt: skip


STREAMS = {
    "256 B rows": (inp(16, 16, 6, 128), 95),
    "256 B rows, misaligned": (
        [item.replace(offset_beats=500) for item in inp(16, 16, 6, 130)], 95),
    "64 B rows": (inp(56, 4, 8, 64), 80),
    "64 B rows, one load each": (inp(1, 4, 300, 0), 80),
    "weights": ([Instruction.of(Opcode.LOAD, memory=LoadMemory.WGT, blocks=1, rows=1, cols=9)
                 for _ in range(10)], 95),
}  # fmt: skip


@pytest.mark.parametrize(("instructions", "percent"), STREAMS.values(), ids=STREAMS)
def test_share_of_the_bus(
    instructions: list[Instruction], percent: int, rng: np.random.Generator
) -> None:
    """Beats per cycle from the first issue to the last retirement, latency included."""
    beats, cycles, bench = rate(instructions, rng)
    share = 100 * beats / cycles
    print(f"{beats} beats in {cycles} cycles: {share:.1f} % of the bus")
    assert share >= percent
    assert bench.cycles_in[Activity.BUSY] == len(bench.fills)


@pytest.mark.parametrize(("rows", "cols"), [(14, 14), (16, 4), (4, 4)])
def test_pads_cost_no_cycle(rows: int, cols: int, rng: np.random.Generator) -> None:
    """Beside data, two cycles per row of pad; one where data has ended; none for nothing."""
    count = max(4, 192 // (rows * cols))
    tiles = inp(rows, cols, count, 64, pad_top=1, pad_bottom=1, pad_left=1, pad_right=1)
    _, plain_cycles, _ = rate(inp(rows, cols, count, 64), rng)
    beats, cycles, bench = rate(tiles, rng)
    pads = (rows + 2) * (cols + 2) - rows * cols
    print(f"{beats} beats: {cycles} cycles with {count * pads} rows of pad, {plain_cycles} without")
    # The walk over pads passes a line of data in one cycle.
    beside_data = (2 * rows * cols - rows) // 2
    alone = max(0, pads - beside_data)
    # One cycle for the line of pads above the data.
    assert cycles <= plain_cycles + count * (1 + alone)
    assert bench.both > 0


def test_lone_pads_take_a_cycle_per_row(rng: np.random.Generator) -> None:
    """Without data, each cycle writes a whole row of pad, of the accumulators too."""
    for memory in (LoadMemory.INP, LoadMemory.ACC):
        tiles = [
            Instruction.of(Opcode.LOAD, memory=memory, blocks=1, pad_top=8, pad_left=8)
            for _ in range(8)
        ]
        _, cycles, _ = rate(tiles, rng)
        assert cycles <= 8 * 64 + 20


def test_queued_loads_overlap_their_latencies(rng: np.random.Generator) -> None:
    """Sixteen loads of one row each cost one latency, not sixteen."""
    _, cycles, _ = rate(inp(1, 2, 16, 0), rng)
    print(f"16 loads of 4 beats in {cycles} cycles")
    assert cycles <= 64 + 16 * 4 + 20
