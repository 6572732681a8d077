"""Mark records: what reaches memory, in which slots, under random stalls and failing writes."""

import numpy as np
import pytest
from amaranth.sim import Simulator

from daedal.hw.control.marks import MarkRecorder
from daedal.isa.latencies import MARKS_PER_UNIT
from daedal.isa.registers import MARK_FIELDS, MARK_WORDS, ErrorCode
from daedal.isa.table import Unit
from daedal.isa.variant import load_variant

TINY = load_variant("tiny")
WIDE = TINY.replace("wide", block_in=32, block_out=32, data_bits=256, wgt_bytes=1 << 14)
UNITS = 4


class Bench:
    """A recorder with a writer that stalls at random, and memory as a dictionary of words."""

    def __init__(self, variant, rng: np.random.Generator, response: int = 0) -> None:
        self.variant, self.rng, self.response = variant, rng, response
        self.recorder = MarkRecorder(variant=variant)
        self.memory: dict[int, int] = {}

    async def writer(self, ctx) -> None:
        r = self.recorder
        open_address, open_beats = 0, 0
        acknowledge = 0
        while True:
            ready = int(self.rng.integers(2))
            ctx.set(r.request.ready, ready and open_beats == 0)
            ctx.set(r.data.ready, ready and open_beats > 0)
            answers = acknowledge and self.rng.integers(3) == 0
            ctx.set(r.response.valid, bool(answers))
            ctx.set(r.response.response, self.response)
            acknowledge -= bool(answers)
            if ready and open_beats and ctx.get(r.data.valid):
                self.memory[open_address] = ctx.get(r.data.p)
                open_address, open_beats = open_address + 1, open_beats - 1
                acknowledge += open_beats == 0
            elif ready and not open_beats and ctx.get(r.request.valid):
                open_address = ctx.get(r.request.p.address)
                open_beats = ctx.get(r.request.p.beats)
            await ctx.tick()

    def record(self, slot: int, base: int) -> list[int]:
        """The 32-bit words of a slot."""
        beats = 32 * MARK_WORDS // self.variant.bus.data_bits
        value = 0
        for beat in range(beats):
            word = self.memory[base + slot * beats + beat]
            value |= word << beat * self.variant.bus.data_bits
        return [value >> 32 * n & 0xFFFFFFFF for n in range(MARK_WORDS)]

    def run(self, drive) -> None:
        simulator = Simulator(self.recorder)
        simulator.add_clock(1e-6)
        simulator.add_testbench(drive)
        simulator.add_testbench(self.writer, background=True)
        simulator.run()


async def begin(ctx, r, base: int, capacity: int) -> None:
    ctx.set(r.base_address, base)
    ctx.set(r.capacity, capacity)
    ctx.set(r.restart, 1)
    await ctx.tick()
    ctx.set(r.restart, 0)


def present(ctx, r, unit: int, number: int) -> list[int]:
    """A marked retirement of `unit`; returns the record it should leave."""
    retire, counts = r.retire[unit], r.counts[unit]
    values = [(0x01000193 * (number * 16 + n + 1)) & 0xFFFFFFFF for n in range(8)]
    cycle = number << 30
    ctx.set(retire.valid, 1)
    ctx.set(retire.payload.mark, 1)
    ctx.set(retire.payload.tag, 0xF000 + number)
    ctx.set(retire.payload.index, 3 * number)
    ctx.set(r.cycle, cycle)
    for n, value in enumerate(values):
        ctx.set(counts[n], value)
    head = [0xF000 + number | unit << 16, 3 * number, cycle & 0xFFFFFFFF, cycle >> 32]
    assert len(head) + len(values) == len(MARK_FIELDS)
    return head + values + [0] * (MARK_WORDS - len(MARK_FIELDS))


@pytest.mark.parametrize("variant", [TINY, WIDE], ids=["tiny", "wide"])
@pytest.mark.parametrize("capacity", [1, 5, 64])
def test_records_land_in_the_ring(variant, capacity: int, rng: np.random.Generator) -> None:
    bench = Bench(variant, rng)
    r = bench.recorder
    expected: dict[int, list[list[int]]] = {unit: [] for unit in range(UNITS)}
    total = 24

    async def drive(ctx) -> None:
        await begin(ctx, r, 0x1000, capacity)
        for number in range(total):
            unit = int(rng.integers(UNITS))
            await ctx.tick().until(r.available[unit])
            ctx.set(r.taken[unit], 1)
            await ctx.tick()
            ctx.set(r.taken[unit], 0)
            for _ in range(int(rng.integers(20))):
                await ctx.tick()
            expected[unit].append(present(ctx, r, unit, number))
            await ctx.tick()
            ctx.set(r.retire[unit].valid, 0)
        await ctx.tick().until(r.idle)
        assert ctx.get(r.written) == total

    bench.run(drive)
    everything = {tuple(record) for records in expected.values() for record in records}
    records = [bench.record(slot, 0x1000) for slot in range(min(capacity, total))]
    assert len({tuple(record) for record in records}) == len(records)
    assert {tuple(record) for record in records} <= everything
    if capacity >= total:
        for unit in range(UNITS):  # those of one unit keep their order
            assert [r for r in records if r[0] >> 16 == unit] == expected[unit]


def test_room_is_counted_from_admission_to_memory(rng: np.random.Generator) -> None:
    recorder = MarkRecorder(variant=TINY)

    async def drive(ctx) -> None:
        await begin(ctx, recorder, 0, 8)
        ctx.set(recorder.taken[2], 1)
        for _ in range(MARKS_PER_UNIT):
            assert ctx.get(recorder.available[2]) == 1
            await ctx.tick()
        ctx.set(recorder.taken[2], 0)
        assert ctx.get(recorder.available[2]) == 0
        assert ctx.get(recorder.available[1]) == 1
        present(ctx, recorder, 2, 1)
        await ctx.tick()
        ctx.set(recorder.retire[2].valid, 0)
        await ctx.tick().repeat(20)
        assert ctx.get(recorder.available[2]) == 0
        ctx.set(recorder.request.ready, 1)
        ctx.set(recorder.data.ready, 1)
        await ctx.tick().repeat(20)
        assert ctx.get(recorder.available[2]) == 1
        assert ctx.get(recorder.idle) == 0  # not acknowledged yet

    simulator = Simulator(recorder)
    simulator.add_clock(1e-6)
    simulator.add_testbench(drive)
    simulator.run()


def test_nothing_is_recorded_while_marks_are_off(rng: np.random.Generator) -> None:
    bench = Bench(TINY, rng)

    async def drive(ctx) -> None:
        await begin(ctx, bench.recorder, 0, 0)
        assert ctx.get(bench.recorder.enabled) == 0
        present(ctx, bench.recorder, 0, 1)
        await ctx.tick().repeat(30)
        assert ctx.get(bench.recorder.idle) == 1

    bench.run(drive)
    assert bench.memory == {}


@pytest.mark.parametrize(
    ("response", "code"), [(2, ErrorCode.WRITE_SLVERR), (3, ErrorCode.WRITE_DECERR)]
)
def test_a_failed_write_names_the_marked_instruction(
    response: int, code: ErrorCode, rng: np.random.Generator
) -> None:
    bench = Bench(TINY, rng, response)
    r = bench.recorder

    async def drive(ctx) -> None:
        await begin(ctx, r, 0, 4)
        present(ctx, r, Unit.STORE, 7)
        await ctx.tick()
        ctx.set(r.retire[3].valid, 0)
        seen = (
            await ctx.tick().sample(r.error.code, r.error_unit, r.error.index).until(r.error.valid)
        )
        assert tuple(seen) == (code, Unit.STORE, 21)
        assert ctx.get(r.written) == 0

    bench.run(drive)
