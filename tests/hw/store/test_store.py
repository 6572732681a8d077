"""STORE before the write master and a random memory, against `isa.semantics`."""

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Elaboratable, Module
from amaranth.lib.wiring import connect

from daedal.hw.bus.write_master import WriteMaster
from daedal.hw.interfaces import Activity
from daedal.hw.store.store import Store
from daedal.isa.elements import to_memory
from daedal.isa.instruction import Instruction
from daedal.isa.latencies import ACC_READ_CYCLES
from daedal.isa.registers import ErrorCode
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.semantics import State, execute
from daedal.isa.table import Opcode, OutMemory
from daedal.isa.variant import Variant, load_variant
from tests.hw.axi_slave import AxiSlave
from tests.hw.shared_designs import shared_design
from tests.hw.stream_bench import Bench, plain, source
from tests.support.region_cases import RegionCase, region_cases

MEMORY_BYTES = 1 << 17
BASES = [0, 0x4000, 0x8000, 0x10000]
REGIONS = [MEMORY_BYTES - base for base in BASES]
"""Bytes behind the bases: all that there are."""
TINY, VTA = load_variant("tiny"), load_variant("vta")
VARIANTS = {
    "tiny": TINY,
    "int16": TINY.replace(
        "int16", input_bits=16, output_bits=16, weight_bits=16, accumulator_bits=48
    ),
    "int4": VTA.replace("int4", input_bits=4, output_bits=4, weight_bits=4, wgt_bytes=32768),
    "wide": VTA.replace("wide", data_bits=128, batch=2, wgt_bytes=32768),
}


class StoreSystem(Elaboratable):
    """STORE and the write master, wired as in the machine."""

    def __init__(self, variant: Variant):
        self.store = Store(variant=variant)
        self.master = WriteMaster(variant=variant)

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.store, m.submodules.master = self.store, self.master
        connect(m, self.store.request, self.master.request[0])
        connect(m, self.store.data, self.master.data[0])
        connect(m, self.master.response[0], self.store.response)
        return m


def chip_rows(state: State, memory: Memory) -> list[int]:
    """Rows of a scratchpad as the numbers that its read port gives."""
    bits = scratchpad(state.variant, memory).element_bits
    rows = getattr(state, memory.value)
    mask = (1 << bits) - 1
    return [
        sum((int(value) & mask) << (bits * k) for k, value in enumerate(row.reshape(-1)))
        for row in rows
    ]


class StoreBench(Bench):
    """Runs STORE instructions from the scratchpads of `state`."""

    def __init__(
        self,
        instructions: list[Instruction],
        slave: AxiSlave,
        state: State,
        *,
        gap: float = 0.0,
        regions: Sequence[int] = REGIONS,
    ):
        variant = slave.variant
        self.system, simulator = shared_design(StoreSystem, variant=variant)
        super().__init__(self.system, simulator)
        dut = self.system.store
        self.slave = slave
        self.retired: list[dict[str, int]] = []
        self.memory_at_retirement: list[np.ndarray] = []
        self.errors: list[tuple[int, int]] = []
        self.rows_read: list[tuple[Memory, int]] = []
        self.cycles_in = dict.fromkeys(Activity, 0)
        self.work = 0
        items = [
            {"instruction": {"opcode": item.opcode, **item.values}, "index": number}
            for number, item in enumerate(instructions)
        ]

        async def watch(ctx: Any) -> None:
            for number, base in enumerate(BASES):
                ctx.set(dut.base_address[number], base // variant.bus_bytes)
                ctx.set(dut.region_words[number], regions[number] // variant.bus_bytes)
            while True:
                _, _, valid, record, failed, code, index, activity, work = await ctx.tick().sample(
                    dut.retire.valid, dut.retire.payload,
                    dut.error.valid, dut.error.code, dut.error.index, dut.activity, dut.work,
                )  # fmt: skip
                if valid:
                    self.retired.append(plain(record))
                    self.memory_at_retirement.append(slave.data.copy())
                if failed:
                    self.errors.append((code, index))
                self.cycles_in[Activity(activity)] += 1
                self.work += work

        async def scratchpads(ctx: Any) -> None:
            """Both memories answer two cycles after a read, and only then."""
            out, acc = chip_rows(state, Memory.OUT), chip_rows(state, Memory.ACC)
            junk = (1 << scratchpad(variant, Memory.OUT).row_bits) - 1
            # Answers on their way, the next one first; rows are noted in the order of those.
            none_yet = [None] * (ACC_READ_CYCLES - 1)
            out_pending: deque[int | None] = deque(none_yet)
            acc_pending: deque[int | None] = deque(none_yet)
            while True:
                ready = slave.rng.random() >= gap
                ctx.set(dut.acc_read.ready, ready)
                _, _, enable, row, valid, acc_row = await ctx.tick().sample(
                    dut.out_read.enable, dut.out_read.row, dut.acc_read.valid, dut.acc_read.payload
                )
                out_pending.append(row if enable else None)
                acc_pending.append(acc_row if valid and ready else None)
                out_row, lands = out_pending.popleft(), acc_pending.popleft()
                ctx.set(dut.out_read.data, junk if out_row is None else out[out_row])
                ctx.set(dut.acc_data.valid, lands is not None)
                ctx.set(dut.acc_data.data, 0 if lands is None else acc[lands])
                if out_row is not None:
                    self.rows_read.append((Memory.OUT, out_row))
                if lands is not None:
                    self.rows_read.append((Memory.ACC, lands))

        self.background(
            slave.writes(self.system.master.aw, self.system.master.w, self.system.master.b),
            watch,
            scratchpads,
            source(dut.issue, items, slave.rng, gap),
        )


def random_state(variant: Variant, rng: np.random.Generator) -> State:
    state = State(variant)
    for memory in (Memory.OUT, Memory.ACC):
        limit = 1 << (scratchpad(variant, memory).element_bits - 1)
        array = getattr(state, memory.value)
        array[:] = rng.integers(-limit, limit, array.shape)
    return state


def random_store(variant: Variant, rng: np.random.Generator) -> Instruction:
    """A legal STORE from either memory; empty and overlapping ones among them."""
    source_memory = OutMemory(int(rng.integers(2)))
    depth = scratchpad(variant, source_memory.memory).depth_rows
    blocks, rows, cols = (int(rng.integers(0, 5)) for _ in range(3))
    return Instruction.of(
        Opcode.STORE,
        push=int(rng.integers(0, 8)),
        mark=int(rng.integers(2)),
        tag=int(rng.integers(1 << 16)),
        memory=source_memory,
        base=int(rng.integers(4)),
        row=int(rng.integers(0, depth - blocks * rows * cols + 1)),
        offset_beats=int(rng.integers(0, 100)),
        blocks=blocks,
        rows=rows,
        cols=cols,
        row_stride_beats=int(rng.integers(0, 60)),
        block_stride_beats=int(rng.integers(0, 400)),
    )


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.parametrize("gap", [0.0, 0.4])
@pytest.mark.parametrize("count", [4, pytest.param(40, marks=pytest.mark.slow)])
def test_memory_equals_the_semantics(
    variant: Variant, gap: float, count: int, rng: np.random.Generator
) -> None:
    """At each retirement, all that the instruction wrote is in memory."""
    memory = rng.integers(0, 256, MEMORY_BYTES, dtype=np.uint8)
    wanted = memory.copy()
    state = random_state(variant, rng)
    instructions = [random_store(variant, rng) for _ in range(count)]
    slave = AxiSlave(variant, memory, rng, write_latency=8, extra_latency=20, stall=gap / 2)
    bench = StoreBench(instructions, slave, state, gap=gap)
    bench.until(lambda: len(bench.retired) == len(instructions))
    bench.run()
    for instruction in instructions:
        words = [size // variant.bus_bytes for size in REGIONS]
        execute(state, instruction, wanted, BASES, words)
    np.testing.assert_array_equal(memory, wanted)
    assert bench.errors == []
    assert bench.work == slave.beats_written
    assert bench.retired == [
        {"push": item.push, "mark": item.mark, "tag": item.tag, "index": number}
        for number, item in enumerate(instructions)
    ]


def test_two_stores_are_in_memory_and_retire(rng: np.random.Generator) -> None:
    """One after the other: what `test_memory_equals_the_semantics` does with more variants."""
    state = random_state(TINY, rng)
    store = Instruction.of(Opcode.STORE, row=3, blocks=1, rows=1, cols=2)
    slave = AxiSlave(TINY, np.zeros(MEMORY_BYTES, dtype=np.uint8), rng)
    bench = StoreBench([store, store.replace(offset_beats=8, tag=5)], slave, state)
    bench.until(lambda: len(bench.retired) == 2)
    bench.run()
    rows = to_memory(state.out[3:5].reshape(2, -1), 8).reshape(-1)
    for start in (0, 8 * TINY.bus_bytes):
        np.testing.assert_array_equal(slave.data[start : start + len(rows)], rows)
    assert [item["tag"] for item in bench.retired] == [0, 5]


def test_retirement_waits_for_the_acknowledgement(rng: np.random.Generator) -> None:
    """B comes 50 cycles after the data: tokens that order memory are not given before."""
    state = random_state(VTA, rng)
    stores = [
        Instruction.of(Opcode.STORE, blocks=1, rows=3, cols=20, row_stride_beats=600, row=9),
        Instruction.of(Opcode.STORE, blocks=0, rows=3, cols=20),
        Instruction.of(Opcode.STORE, memory=OutMemory.ACC, blocks=1, rows=1, cols=3, base=2),
    ]
    slave = AxiSlave(VTA, np.zeros(MEMORY_BYTES, dtype=np.uint8), rng, write_latency=50)
    bench = StoreBench(stores, slave, state)
    bench.until(lambda: len(bench.retired) == len(stores))
    bench.run()
    first, _, third = bench.memory_at_retirement
    for number in range(3):
        rows = to_memory(state.out[9 + 20 * number : 29 + 20 * number].reshape(20, -1), 8)
        start = number * 4800
        np.testing.assert_array_equal(first[start : start + 320], rows.reshape(-1))
    np.testing.assert_array_equal(
        third[0x8000 : 0x8000 + 3 * 64],
        to_memory(state.acc[:3].reshape(3, -1), 32).reshape(-1),
    )
    assert len(slave.bursts_written) >= 7
    assert bench.cycles_in[Activity.DRAIN] >= 45


def run_to_error(
    instructions: list[Instruction], slave: AxiSlave, regions: Sequence[int] = REGIONS
) -> StoreBench:
    state = random_state(slave.variant, slave.rng)
    bench = StoreBench(instructions, slave, state, regions=regions)
    bench.until(lambda: bool(bench.errors))

    async def linger(ctx: Any) -> None:
        await ctx.tick().repeat(300)

    bench.foreground(linger)
    bench.run()
    return bench


GOOD = Instruction.of(Opcode.STORE, blocks=1, rows=1, cols=4)


@pytest.mark.parametrize("memory", list(OutMemory))
def test_rows_beyond_the_scratchpad_are_not_read(
    memory: OutMemory, rng: np.random.Generator
) -> None:
    depth = scratchpad(TINY, memory.memory).depth_rows
    bad = Instruction.of(Opcode.STORE, memory=memory, row=depth - 3, blocks=2, rows=1, cols=2)
    slave = AxiSlave(TINY, np.zeros(MEMORY_BYTES, dtype=np.uint8), rng)
    bench = run_to_error([GOOD, bad, GOOD], slave)
    assert bench.errors == [(ErrorCode.ROW_RANGE, 1)]
    assert (memory.memory, depth - 1) in bench.rows_read
    assert all(row < depth for kind, row in bench.rows_read if kind is memory.memory)


@pytest.mark.parametrize("memory", list(OutMemory))
@pytest.mark.parametrize("beyond", [pytest.param(0, marks=pytest.mark.heavy(1)), 5])
def test_a_first_row_beyond_the_scratchpad_is_not_read(
    memory: OutMemory, beyond: int, rng: np.random.Generator
) -> None:
    """The field `row` is as wide as the larger of the two scratchpads needs."""
    name = f"{memory.memory.value}_bytes"
    variant = TINY.replace("uneven", **{name: getattr(TINY.memory, name) // 2})
    depth = scratchpad(variant, memory.memory).depth_rows
    last = Instruction.of(Opcode.STORE, memory=memory, row=depth - 1, blocks=1, rows=1, cols=1)
    slave = AxiSlave(variant, np.zeros(MEMORY_BYTES, dtype=np.uint8), rng)
    bench = run_to_error([last, last.replace(row=depth + beyond), last], slave)
    assert bench.errors == [(ErrorCode.ROW_RANGE, 1)]
    assert bench.rows_read == [(memory.memory, depth - 1)]


@pytest.mark.parametrize("case", region_cases(TINY, 64, 4), ids=str)
def test_words_outside_the_region_are_not_written(
    case: RegionCase, rng: np.random.Generator
) -> None:
    """Of any base; the rows before are, and the bytes around the region stay."""
    base, words, line = int(rng.integers(4)), 64, 4
    begin, end = BASES[base], BASES[base] + words * TINY.bus_bytes
    regions = [0 if number != base else end - begin for number in range(4)]
    stores = [
        Instruction.of(Opcode.STORE, base=base, cols=line, **fields)
        for fields in ({"blocks": 1, "rows": 1}, case.fields, {"blocks": 1, "rows": 1})
    ]
    memory = np.full(MEMORY_BYTES, 0xA5, dtype=np.uint8)
    slave = AxiSlave(TINY, memory, rng)
    if case.inside is None:
        bench = StoreBench(stores, slave, random_state(TINY, rng), regions=regions)
        bench.until(lambda: len(bench.retired) == len(stores))
        bench.run()
        assert bench.errors == []
    else:
        bench = run_to_error(stores, slave, regions)
        assert bench.errors == [(ErrorCode.MEMORY_RANGE, 1)]
        # What was asked for before goes on; only retirement stands still.
        assert slave.beats_written == (1 + case.inside) * line
    assert all(begin <= burst.address < end for burst in slave.bursts_written)
    assert (memory[:begin] == 0xA5).all() and (memory[end:] == 0xA5).all()


@pytest.mark.parametrize(
    ("response", "code"), [(2, ErrorCode.WRITE_SLVERR), (3, ErrorCode.WRITE_DECERR)]
)
def test_bus_errors_name_the_instruction(
    response: int, code: ErrorCode, rng: np.random.Generator
) -> None:
    """The second of three rows fails; the empty instruction before is not blamed."""
    bad = Instruction.of(
        Opcode.STORE, blocks=1, rows=3, cols=4, row_stride_beats=32, offset_beats=512
    )
    slave = AxiSlave(
        TINY, np.zeros(MEMORY_BYTES, dtype=np.uint8), rng, write_errors={4096 + 256: response}
    )
    bench = run_to_error([GOOD, GOOD.replace(blocks=0), bad, GOOD], slave)
    assert bench.errors == [(code, 2)]
    assert [record["index"] for record in bench.retired] == [0, 1]


STREAMS = {
    "256 B rows": ([Instruction.of(Opcode.STORE, blocks=1, rows=16, cols=16, row_stride_beats=64)
                    for _ in range(6)], 95),
    "256 B from accumulators": ([Instruction.of(Opcode.STORE, memory=OutMemory.ACC, blocks=1,
                    rows=16, cols=4, row_stride_beats=64) for _ in range(6)], 95),
    "64 B rows": ([Instruction.of(Opcode.STORE, blocks=1, rows=56, cols=4, row_stride_beats=64)
                   for _ in range(6)], 80),
    "64 B rows, one store each": ([Instruction.of(Opcode.STORE, blocks=1, rows=1, cols=4)
                                   for _ in range(200)], 80),
}  # fmt: skip


@pytest.mark.parametrize(
    ("variant", "instructions", "percent"),
    [(VTA, *stream) for stream in STREAMS.values()] + [(TINY, STREAMS["256 B rows"][0], 93)],
    ids=[*STREAMS, "rows of one word"],
)
def test_share_of_the_bus(
    variant: Variant, instructions: list[Instruction], percent: int, rng: np.random.Generator
) -> None:
    """Beats per cycle from the first issue to the last retirement, B after 32 cycles."""
    slave = AxiSlave(variant, np.zeros(MEMORY_BYTES, dtype=np.uint8), rng, write_latency=32)
    bench = StoreBench(instructions, slave, random_state(variant, rng))
    bench.until(lambda: len(bench.retired) == len(instructions))
    cycles = bench.run()
    share = 100 * slave.beats_written / cycles
    print(f"{slave.beats_written} beats in {cycles} cycles: {share:.1f} % of the bus")
    assert share >= percent
    assert bench.cycles_in[Activity.BUSY] == slave.beats_written
