"""WriteMaster against a memory with random latency and stalls."""

import numpy as np
import pytest
from amaranth.hdl import ResetInserter, Signal

from daedal.hw.bus.write_master import WriteMaster
from daedal.isa.variant import Variant, load_variant
from tests.hw.axi_slave import AxiSlave
from tests.hw.stream_bench import Bench, source

MEMORY_BYTES = 1 << 16
TINY = load_variant("tiny")
VARIANTS = {
    "tiny": TINY,
    "wide": load_variant("vta").replace("wide", data_bits=128, write_bursts=4),
}


def responses(dut: WriteMaster, writer: int, got: list[int]):
    """Testbench that collects the responses of a writer."""
    port = dut.response[writer]

    async def bench(ctx) -> None:
        while True:
            _, _, valid, response = await ctx.tick().sample(port.valid, port.response)
            if valid:
                got.append(response)

    return bench


def random_writes(
    rng: np.random.Generator, variant: Variant, low: int, high: int, count: int
) -> list[tuple[int, list[int]]]:
    """(word address, words) within the bytes ``[low, high)``, often across a 4 KiB boundary."""
    size = variant.bus_bytes
    writes = []
    for _ in range(count):
        beats = int(rng.integers(1, rng.choice([3, 40, 100])))
        last = high // size - beats
        if rng.random() < 0.5:
            address = (low + 4096 * int(rng.integers(1, 4))) // size - int(rng.integers(1, 40))
        else:
            address = int(rng.integers(low // size, last))
        words = [int.from_bytes(rng.bytes(size), "little") for _ in range(beats)]
        writes.append((min(address, last), words))
    return writes


def apply_writes(memory: np.ndarray, writes: list[tuple[int, list[int]]], size: int) -> None:
    for address, words in writes:
        raw = b"".join(word.to_bytes(size, "little") for word in words)
        start = address * size
        memory[start : start + len(raw)] = np.frombuffer(raw, dtype=np.uint8)


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.parametrize("stall", [0.0, 0.3])
def test_memory_holds_what_was_written(
    variant: Variant, stall: float, rng: np.random.Generator
) -> None:
    memory = rng.integers(0, 256, MEMORY_BYTES, dtype=np.uint8)
    model = memory.copy()
    dut = WriteMaster(variant=variant)
    slave = AxiSlave(variant, memory, rng, write_latency=5, extra_latency=20, stall=stall)
    bench = Bench(dut)
    bench.background(slave.writes(dut.aw, dut.w, dut.b))
    gots: list[list[int]] = [[], []]
    half = MEMORY_BYTES // 2
    for writer in range(2):
        writes = random_writes(rng, variant, writer * half, (writer + 1) * half, 15)
        apply_writes(model, writes, variant.bus_bytes)
        requests = [{"address": address, "beats": len(words)} for address, words in writes]
        words = [word for _, burst in writes for word in burst]
        bench.foreground(
            source(dut.request[writer], requests, rng, 0.2),
            source(dut.data[writer], words, rng, stall),
        )
        bench.background(responses(dut, writer, gots[writer]))
    bench.until(lambda: all(len(got) == 15 for got in gots))
    bench.run()
    assert gots == [[0] * 15] * 2
    np.testing.assert_array_equal(memory, model)
    assert {burst.id for burst in slave.bursts_written} == {0, 1}


def test_open_bursts_are_bounded(rng: np.random.Generator) -> None:
    """A slow memory sees all the bursts that the variant allows, and no more."""
    dut = WriteMaster(variant=TINY)
    slave = AxiSlave(TINY, np.zeros(MEMORY_BYTES, dtype=np.uint8), rng, write_latency=200)
    bench, got = Bench(dut), []
    bench.background(slave.writes(dut.aw, dut.w, dut.b), responses(dut, 0, got))
    requests = [{"address": 4 * n, "beats": 4} for n in range(20)]
    bench.foreground(source(dut.request[0], requests), source(dut.data[0], range(80)))
    bench.until(lambda: len(got) == 20)
    bench.run()
    assert slave.most_open_writes == TINY.bus.write_bursts


@pytest.mark.parametrize("writers", [1, 2])
def test_the_worst_response_of_a_request_is_reported(
    writers: int, rng: np.random.Generator
) -> None:
    dut = WriteMaster(variant=TINY, writers=writers)
    errors = {64 * 8: 3, 128 * 8: 2, 1024 * 8: 2}
    slave = AxiSlave(TINY, np.zeros(MEMORY_BYTES, dtype=np.uint8), rng, write_errors=errors)
    bench, got = Bench(dut), []
    bench.background(slave.writes(dut.aw, dut.w, dut.b), responses(dut, 0, got))
    requests = [
        {"address": 32, "beats": 128},
        {"address": 512, "beats": 40},
        {"address": 1024, "beats": 1},
        {"address": 2048, "beats": 1},
    ]
    bench.foreground(source(dut.request[0], requests), source(dut.data[0], range(170)))
    bench.until(lambda: len(got) == 4)
    bench.run()
    assert got == [3, 0, 2, 0]


def test_writes_fill_the_bus(rng: np.random.Generator) -> None:
    """256-byte rows with 32 cycles until B: every cycle moves a word."""
    variant = load_variant("vta")
    dut = WriteMaster(variant=variant)
    slave = AxiSlave(variant, np.zeros(MEMORY_BYTES, dtype=np.uint8), rng, write_latency=32)
    bench, got = Bench(dut), []
    bench.background(slave.writes(dut.aw, dut.w, dut.b), responses(dut, 0, got))
    requests = [{"address": 32 * n, "beats": 32} for n in range(50)]
    bench.foreground(source(dut.request[0], requests), source(dut.data[0], range(1600)))
    bench.until(lambda: len(got) == 50)
    cycles = bench.run()
    print(f"1600 beats in {cycles} cycles")
    assert cycles <= 1600 + 32 + 12


@pytest.mark.parametrize("starved", [False, True], ids=["with data", "without data"])
def test_stop_ends_open_bursts_without_writing(starved: bool, rng: np.random.Generator) -> None:
    """Beats after `stop` strobe no byte, whether or not the writer still gives words."""
    dut, reset = WriteMaster(variant=TINY), Signal()
    memory = np.full(MEMORY_BYTES, 0xAA, dtype=np.uint8)
    slave = AxiSlave(TINY, memory, rng, write_latency=10, stall=0.3)
    bench, got = Bench(ResetInserter(reset)(dut)), []
    words = [0x1111111111111111] * (10 if starved else 400)
    bench.background(
        slave.writes(dut.aw, dut.w, dut.b),
        responses(dut, 0, got),
        source(dut.request[0], [{"address": 0, "beats": 400}]),
        source(dut.data[0], words),
    )
    written_at_stop = []

    async def scenario(ctx) -> None:
        await ctx.tick().repeat(60)
        ctx.set(dut.stop, 1)
        written_at_stop.append(slave.beats_written)
        await ctx.tick().until(dut.drained)
        assert all(burst.served == burst.beats for burst in slave.bursts_written)
        ctx.set(reset, 1)
        await ctx.tick()
        ctx.set(reset, 0)
        await ctx.tick().repeat(5)
        assert ctx.get(dut.drained)
        assert not ctx.get(dut.aw.valid) and not ctx.get(dut.w.valid)

    bench.foreground(scenario)
    bench.run()
    changed = int((memory == 0x11).sum()) // 8
    assert np.isin(memory, [0x11, 0xAA]).all()
    # One word may have been on offer, with its strobes, when the stop came.
    assert changed <= written_at_stop[0] + 1
    assert slave.beats_written > changed
    assert got == []


@pytest.mark.parametrize("writers", [0, 3])
def test_more_writers_than_ids_are_refused(writers: int) -> None:
    with pytest.raises(ValueError, match=f"writers must be 1 to 2, not {writers}"):
        WriteMaster(variant=TINY, writers=writers)
