"""The control registers over AXI4-Lite, with AW, W, B, AR and R moving independently."""

import numpy as np
import pytest
from amaranth.sim import Simulator

from daedal.hw.control.control import WATCHDOG_DEFAULT_CYCLES, Control
from daedal.isa.registers import (
    CLASSES,
    DRAIN_LIMIT_CYCLES,
    ID_VALUE,
    REGISTERS,
    counter_offset,
    register,
)
from daedal.isa.table import Unit
from daedal.isa.variant import load_variant

TINY = load_variant("tiny")
WIDE = TINY.replace(
    "wide", block_in=32, block_out=32, data_bits=256, address_bits=40, wgt_bytes=1 << 14
)
OKAY = 0


async def pause(ctx, rng) -> None:
    for _ in range(int(rng.integers(4))):
        await ctx.tick()


async def write(ctx, dut, rng, name: str | int, value: int, strobes: int = 15) -> None:
    """One write: address and data in random order and at random distance."""
    offset = name if isinstance(name, int) else register(name).offset
    ctx.set(dut.awaddr, offset)
    ctx.set(dut.wdata, value)
    ctx.set(dut.wstrb, strobes)
    wanted = {"aw": int(rng.integers(5)), "w": int(rng.integers(5))}
    for cycle in range(100):
        for channel, start in wanted.items():
            ctx.set(getattr(dut, f"{channel}valid"), cycle >= start)
        taken = [c for c, s in wanted.items() if cycle >= s and ctx.get(getattr(dut, f"{c}ready"))]
        await ctx.tick()
        for channel in taken:
            ctx.set(getattr(dut, f"{channel}valid"), 0)
            del wanted[channel]
        if not wanted:
            break
    await pause(ctx, rng)
    ctx.set(dut.bready, 1)
    (response,) = await ctx.tick().sample(dut.bresp).until(dut.bvalid)
    ctx.set(dut.bready, 0)
    assert response == OKAY


async def read(ctx, dut, rng, name: str | int) -> int:
    offset = name if isinstance(name, int) else register(name).offset
    await pause(ctx, rng)
    ctx.set(dut.araddr, offset)
    ctx.set(dut.arvalid, 1)
    await ctx.tick().until(dut.arready)
    ctx.set(dut.arvalid, 0)
    ctx.set(dut.araddr, 0)
    while not ctx.get(dut.rvalid):
        await ctx.tick()
    first = ctx.get(dut.rdata)
    await pause(ctx, rng)
    ctx.set(dut.rready, 1)
    value, response = await ctx.tick().sample(dut.rdata, dut.rresp).until(dut.rvalid)
    ctx.set(dut.rready, 0)
    assert (response, value) == (OKAY, first)
    return value


def run(dut, drive) -> None:
    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(drive)
    simulator.run()


@pytest.mark.parametrize("variant", [TINY, WIDE], ids=["tiny", "wide"])
def test_settings_read_back_and_reach_the_machine(variant, rng: np.random.Generator) -> None:
    dut = Control(variant=variant)
    names = [
        item.name
        for item in REGISTERS
        if item.writable and item.name not in ("control", "gie", "ier", "isr", "abort")
    ]
    values = {name: int(rng.integers(1 << 32)) for name in names}

    async def drive(ctx) -> None:
        assert await read(ctx, dut, rng, "watchdog") == WATCHDOG_DEFAULT_CYCLES
        assert await read(ctx, dut, rng, "drain_limit") == DRAIN_LIMIT_CYCLES
        assert [ctx.get(dut.region_words[number]) for number in range(4)] == [0] * 4
        for name in names:
            await write(ctx, dut, rng, name, values[name])
        for name in names:
            assert await read(ctx, dut, rng, name) == values[name]

        def word_address(name: str) -> int:
            address = values[f"{name}_lo"] | values[f"{name}_hi"] << 32
            return (address & (1 << variant.bus.address_bits) - 1) // variant.bus_bytes

        assert ctx.get(dut.program) == word_address("program")
        assert ctx.get(dut.marks) == word_address("marks")
        for number in range(4):
            assert ctx.get(dut.base_address[number]) == word_address(f"base{number}")
            assert ctx.get(dut.region_words[number]) == word_address(f"size{number}")
        assert ctx.get(dut.program_length) == values["program_length"]
        assert ctx.get(dut.marks_capacity) == values["marks_capacity"]
        assert ctx.get(dut.watchdog) == values["watchdog"]
        assert ctx.get(dut.drain_limit) == values["drain_limit"]

    run(dut, drive)


def test_strobes_choose_bytes(rng: np.random.Generator) -> None:
    dut = Control(variant=TINY)

    async def drive(ctx) -> None:
        await write(ctx, dut, rng, "base2_lo", 0x11223344)
        await write(ctx, dut, rng, "base2_lo", 0xAABBCCDD, strobes=0b0110)
        assert await read(ctx, dut, rng, "base2_lo") == 0x11BBCC44

    run(dut, drive)


def test_status_is_readable_and_not_writable(rng: np.random.Generator) -> None:
    dut = Control(variant=TINY)
    counts = rng.integers(1 << 32, size=(len(Unit), len(CLASSES) + 1))

    async def drive(ctx) -> None:
        for unit in Unit:
            for number, value in enumerate(counts[unit]):
                ctx.set(dut.counts[unit][number], int(value))
        for offset, name in enumerate(("cycles", "beats_read", "beats_written")):
            ctx.set(getattr(dut, name), (offset + 5) << 32 | offset)
        ctx.set(dut.error_code, 9)
        ctx.set(dut.error_unit, 3)
        ctx.set(dut.error_index, 1234)
        ctx.set(dut.marks_written, 17)
        expected = {"id": ID_VALUE, "error": 0x309, "error_instruction": 1234, "marks_written": 17}
        fingerprint = int(TINY.fingerprint, 16)
        words = {"lo": fingerprint & 0xFFFFFFFF, "hi": fingerprint >> 32}
        expected |= {f"fingerprint_{half}": word for half, word in words.items()}
        for offset, name in enumerate(("cycles", "beats_read", "beats_written")):
            expected |= {f"{name}_lo": offset, f"{name}_hi": offset + 5}
        for unit in Unit:
            for kind in CLASSES:
                name = next(r.name for r in REGISTERS if r.offset == counter_offset(unit, kind))
                expected[name] = int(counts[unit, kind])
            expected[f"{unit.name.lower()}_work"] = int(counts[unit, -1])
        assert set(expected) == {r.name for r in REGISTERS if not r.writable}
        for name, value in expected.items():
            await write(ctx, dut, rng, name, 0xFFFFFFFF)
            assert await read(ctx, dut, rng, name) == value, name
        for offset in (0x0F8, 0x1A0, 0xFFC):
            await write(ctx, dut, rng, offset, 1)
            assert await read(ctx, dut, rng, offset) == 0

    run(dut, drive)


def test_a_run_from_start_to_interrupt(rng: np.random.Generator) -> None:
    dut = Control(variant=TINY)
    starts = 0

    async def count_starts(ctx) -> None:
        nonlocal starts
        async for _, _, start in ctx.tick().sample(dut.start):
            starts += start
            if start:
                ctx.set(dut.running, 1)

    async def drive(ctx) -> None:
        assert await read(ctx, dut, rng, "control") == 0b0100
        await write(ctx, dut, rng, "gie", 1)
        await write(ctx, dut, rng, "ier", 1)
        await write(ctx, dut, rng, "program_length", 5)
        await write(ctx, dut, rng, "control", 1)
        await ctx.tick()
        assert starts == 1
        assert await read(ctx, dut, rng, "control") == 0b0001
        await write(ctx, dut, rng, "control", 1)  # ignored: a run is on
        await write(ctx, dut, rng, "program_length", 9)  # ignored as well
        assert await read(ctx, dut, rng, "program_length") == 5
        assert starts == 1
        assert ctx.get(dut.interrupt) == 0
        ctx.set(dut.finished, 1)
        ctx.set(dut.running, 0)
        await ctx.tick()
        ctx.set(dut.finished, 0)
        assert ctx.get(dut.interrupt) == 1
        assert await read(ctx, dut, rng, "control") == 0b1110
        assert await read(ctx, dut, rng, "control") == 0b0100  # reading cleared done
        assert ctx.get(dut.interrupt) == 1  # a level
        assert await read(ctx, dut, rng, "isr") == 1
        await write(ctx, dut, rng, "gie", 0)
        assert ctx.get(dut.interrupt) == 0
        await write(ctx, dut, rng, "gie", 1)
        await write(ctx, dut, rng, "ier", 0)
        assert ctx.get(dut.interrupt) == 0
        await write(ctx, dut, rng, "ier", 1)
        await write(ctx, dut, rng, "isr", 1)  # toggles
        assert ctx.get(dut.interrupt) == 0

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(drive)
    simulator.add_testbench(count_starts, background=True)
    simulator.run()


@pytest.mark.parametrize("enabled", [0, 1])
def test_only_an_enabled_interrupt_becomes_pending(enabled: int, rng: np.random.Generator) -> None:
    """As in AP_CTRL: `isr` takes the end of a run while `ier` is set, whatever `gie` is."""
    dut = Control(variant=TINY)

    async def end_a_run(ctx) -> None:
        ctx.set(dut.finished, 1)
        await ctx.tick()
        ctx.set(dut.finished, 0)

    async def drive(ctx) -> None:
        await write(ctx, dut, rng, "ier", enabled)
        await end_a_run(ctx)
        assert await read(ctx, dut, rng, "isr") == enabled
        assert await read(ctx, dut, rng, "control") == 0b1110  # done is seen by polling either way
        assert ctx.get(dut.interrupt) == 0
        await write(ctx, dut, rng, "gie", 1)
        await write(ctx, dut, rng, "ier", 1)
        assert ctx.get(dut.interrupt) == enabled  # nothing of an earlier run rises with `ier`
        await write(ctx, dut, rng, "isr", enabled)
        assert await read(ctx, dut, rng, "isr") == 0
        await end_a_run(ctx)
        assert await read(ctx, dut, rng, "isr") == 1 and ctx.get(dut.interrupt) == 1

    run(dut, drive)


def test_done_is_not_lost_when_it_comes_during_a_read_of_control(rng) -> None:
    """Whatever the cycle in which a run ends, polling `control` sees done exactly once."""
    for delay in range(8):
        dut = Control(variant=TINY)

        async def finish(ctx, dut=dut, delay=delay) -> None:
            await ctx.tick().repeat(delay + 2)
            ctx.set(dut.finished, 1)
            await ctx.tick()
            ctx.set(dut.finished, 0)

        async def poll(ctx, dut=dut) -> None:
            seen = [await read(ctx, dut, np.random.default_rng(0), "control") for _ in range(6)]
            assert sum(value >> 1 & 1 for value in seen) == 1

        simulator = Simulator(dut)
        simulator.add_clock(1e-6)
        simulator.add_testbench(poll)
        simulator.add_testbench(finish)
        simulator.run()


def test_abort_is_a_pulse(rng: np.random.Generator) -> None:
    dut = Control(variant=TINY)
    pulses = 0

    async def count(ctx) -> None:
        nonlocal pulses
        async for _, _, abort in ctx.tick().sample(dut.abort):
            pulses += abort

    async def drive(ctx) -> None:
        await write(ctx, dut, rng, "abort", 0)
        await ctx.tick().repeat(5)
        assert pulses == 0
        await write(ctx, dut, rng, "abort", 1)
        await ctx.tick().repeat(5)
        assert pulses == 1

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(drive)
    simulator.add_testbench(count, background=True)
    simulator.run()


WIDE_COUNTERS = ("cycles", "beats_read", "beats_written")


@pytest.mark.parametrize("name", WIDE_COUNTERS)
def test_a_wide_counter_does_not_tear(name: str, rng: np.random.Generator) -> None:
    """It counts in every cycle and passes 2^32 anywhere between the reads of its halves."""
    dut = Control(variant=TINY)
    count = getattr(dut, name)
    passed = []

    async def counting(ctx) -> None:
        while True:
            await ctx.tick()
            ctx.set(count, ctx.get(count) + 1)

    async def drive(ctx) -> None:
        for distance in range(24):
            ctx.set(count, (3 << 32) - distance)
            first = ctx.get(count)
            low = await read(ctx, dut, rng, f"{name}_lo")
            middle = ctx.get(count)
            await pause(ctx, rng)
            high = await read(ctx, dut, rng, f"{name}_hi")
            assert first <= high << 32 | low <= middle, distance
            passed.append((low >> 31, ctx.get(count) >> 32))

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(counting, background=True)
    simulator.add_testbench(drive)
    simulator.run()
    assert (1, 3) in passed, "some low half was read before 2^32 and its high half behind"


def test_one_high_half_is_kept_at_a_time(rng: np.random.Generator) -> None:
    """For the counter whose low half was read last; all others are live."""
    dut = Control(variant=TINY)
    a, b, c = WIDE_COUNTERS

    async def drive(ctx) -> None:
        async def halves(*wanted: str) -> list[int]:
            """Each a counter and `lo` or `hi`; all counters move on after every read."""
            for name in WIDE_COUNTERS:
                ctx.set(getattr(dut, name), 0)
            seen = []
            for item in wanted:
                seen.append(await read(ctx, dut, rng, item))
                for name in WIDE_COUNTERS:
                    value = ctx.get(getattr(dut, name))
                    ctx.set(getattr(dut, name), value + (1 << 32) + 1)
            return seen

        assert await halves(f"{a}_hi", f"{a}_hi") == [0, 1]
        assert await halves(f"{a}_lo", f"{a}_hi", f"{a}_hi") == [0, 0, 2]
        assert await halves(f"{a}_lo", f"{b}_hi", "load_work", "id", f"{a}_hi") == [
            0, 1, 0, ID_VALUE, 0,
        ]  # fmt: skip
        assert await halves(f"{a}_lo", f"{c}_lo", f"{a}_hi", f"{c}_hi") == [0, 1, 2, 1]
        assert await halves(f"{b}_lo", f"{b}_lo", f"{b}_hi", f"{b}_hi") == [0, 1, 1, 3]

    run(dut, drive)
