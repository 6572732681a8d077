"""Both halves of the serial port, each against bits that a test makes or reads itself."""

import pytest
from amaranth.hdl import Module

from daedal.hw.boards.uart_receiver import LEAST_DIVISOR, UartReceiver
from daedal.hw.boards.uart_transmitter import UartTransmitter
from tests.hw.stream_bench import Bench, source


def bits_of(byte: int, stop: int = 1) -> list[int]:
    return [0, *(byte >> n & 1 for n in range(8)), stop]


async def play(ctx, pin, levels, divisor: float) -> None:
    """Levels of `divisor` cycles each, which need not be a whole number."""
    due = 0.0
    for level in levels:
        due += divisor
        ctx.set(pin, level)
        while due >= 1:
            await ctx.tick()
            due -= 1


def collector(dut: UartReceiver, got: list):
    async def bench(ctx) -> None:
        while True:
            _, _, valid, byte = await ctx.tick().sample(dut.o.valid, dut.o.payload)
            if valid:
                got.append((byte.data, byte.broken))

    return bench


@pytest.mark.parametrize("error", [-0.03, 0.0, 0.03])
@pytest.mark.parametrize("divisor", [LEAST_DIVISOR, 5, 13])
def test_receives_bytes_of_a_sender_that_is_a_little_off(divisor, error, rng) -> None:
    """Back to back and with pauses; at 4 cycles a bit the edge may already be a quarter bit off."""
    if divisor < 9:
        error /= 3
    sent = [int(byte) for byte in rng.integers(256, size=12)] + [0x00, 0xFF, 0x55]
    dut, got = UartReceiver(divisor=divisor), []
    bench = Bench(dut)
    bench.background(collector(dut, got))

    async def drive(ctx) -> None:
        for byte in sent:
            await play(ctx, dut.pin, bits_of(byte), divisor * (1 + error))
            await play(ctx, dut.pin, [1] * int(rng.integers(3)), divisor)
        await ctx.tick().repeat(2 * divisor)

    bench.foreground(drive)
    bench.run(cap_cycles=100_000)
    assert got == [(byte, 0) for byte in sent]


def test_a_break_is_one_broken_byte_and_the_next_is_whole() -> None:
    dut, got = UartReceiver(divisor=8), []
    bench = Bench(dut)
    bench.background(collector(dut, got))

    async def drive(ctx) -> None:
        await play(ctx, dut.pin, [0] * 35 + [1, 1], 8)
        await play(ctx, dut.pin, bits_of(0xC3), 8)
        await play(ctx, dut.pin, [*bits_of(0x96, stop=0), 1], 8)
        await play(ctx, dut.pin, [*bits_of(0x69), 1], 8)

    bench.foreground(drive)
    bench.run()
    assert got == [(0, 1), (0xC3, 0), (0x96, 1), (0x69, 0)]


def test_a_glitch_is_no_start_bit() -> None:
    dut, got = UartReceiver(divisor=16), []
    bench = Bench(dut)
    bench.background(collector(dut, got))

    async def drive(ctx) -> None:
        for cycles in (1, 3, 6):
            await play(ctx, dut.pin, [0], cycles)
            await play(ctx, dut.pin, [1], 30)
        await play(ctx, dut.pin, [*bits_of(0x3C), 1], 16)

    bench.foreground(drive)
    bench.run()
    assert got == [(0x3C, 0)]


@pytest.mark.parametrize("divisor", [2, 4, 7])
@pytest.mark.parametrize("gap", [0.0, 0.98])
def test_transmits_whole_frames_that_last_ten_bits(divisor, gap, rng) -> None:
    sent = [int(byte) for byte in rng.integers(256, size=10)]
    dut, levels = UartTransmitter(divisor=divisor), []
    bench = Bench(dut)
    bench.foreground(source(dut.i, sent, rng, gap))

    async def watch(ctx) -> None:
        async for _, _, pin in ctx.tick().sample(dut.pin):
            levels.append(pin)

    async def end(ctx) -> None:
        await ctx.tick().repeat(12 * divisor)

    bench.background(watch)
    bench.run(cap_cycles=20_000)
    got, at = [], 0
    while 0 in levels[at:]:
        at = levels.index(0, at)
        frame = levels[at : at + 10 * divisor]
        if len(frame) < 10 * divisor:
            break
        bits = [frame[n * divisor : (n + 1) * divisor] for n in range(10)]
        assert all(len(set(bit)) == 1 for bit in bits), "a bit lasts `divisor` cycles"
        assert bits[9][0] == 1
        got.append(sum(bits[n + 1][0] << n for n in range(8)))
        at += 10 * divisor
    assert got == sent[: len(got)] and len(got) >= len(sent) - 1
    if gap == 0.0:
        assert len(levels) <= 10 * divisor * len(sent) + 5


@pytest.mark.parametrize("divisor", [LEAST_DIVISOR, 13])
def test_one_hears_the_other(divisor, rng) -> None:
    sent = [int(byte) for byte in rng.integers(256, size=15)]
    m = Module()
    m.submodules.transmitter = transmitter = UartTransmitter(divisor=divisor)
    m.submodules.receiver = receiver = UartReceiver(divisor=divisor)
    m.d.comb += receiver.pin.eq(transmitter.pin)
    got: list = []
    bench = Bench(m)
    bench.background(collector(receiver, got))
    bench.foreground(source(transmitter.i, sent, rng, 0.02))
    bench.until(lambda: len(got) == len(sent))
    bench.run(cap_cycles=50_000)
    assert got == [(byte, 0) for byte in sent]


def test_impossible_divisors_are_refused() -> None:
    with pytest.raises(ValueError, match="divisor must be at least 4, not 3"):
        UartReceiver(divisor=3)
    with pytest.raises(ValueError, match="divisor must be at least 1, not 0"):
        UartTransmitter(divisor=0)
