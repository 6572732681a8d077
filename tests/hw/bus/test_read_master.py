"""ReadMaster against a memory with random latency, stalls and reordering between IDs."""

import numpy as np
import pytest
from amaranth.hdl import ResetInserter, Signal

from daedal.hw.bus.read_master import ReadMaster
from daedal.isa.latencies import fifo_depth_words
from daedal.isa.variant import Variant, load_variant
from tests.hw.axi_slave import AxiSlave
from tests.hw.stream_bench import Bench, sink, source

MEMORY_BYTES = 1 << 16
TINY = load_variant("tiny")
VARIANTS = {
    "tiny": TINY,
    "wide": load_variant("vta").replace("wide", data_bits=128, read_bursts=4),
}


def random_requests(rng: np.random.Generator, variant: Variant, count: int) -> list[dict[str, int]]:
    """Requests of 1 to 150 beats, half of them near the end of a 4 KiB page."""
    words = MEMORY_BYTES // variant.bus_bytes
    page = 4096 // variant.bus_bytes
    requests = []
    for _ in range(count):
        beats = int(rng.integers(1, rng.choice([3, 40, 151])))
        if rng.random() < 0.5:
            address = page * int(rng.integers(1, 8)) - int(rng.integers(1, 40))
        else:
            address = int(rng.integers(0, words - beats))
        requests.append({"address": min(address, words - beats), "beats": beats})
    return requests


def expected(slave: AxiSlave, requests: list[dict[str, int]]) -> list[dict[str, int]]:
    """The words that the requests mean."""
    size = slave.variant.bus_bytes
    return [
        {
            "data": slave.word((request["address"] + beat) * size),
            "response": slave.read_errors.get((request["address"] + beat) * size, 0),
        }
        for request in requests
        for beat in range(request["beats"])
    ]


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.parametrize("stall", [0.0, 0.3])
def test_words_come_in_order(variant: Variant, stall: float, rng: np.random.Generator) -> None:
    memory = rng.integers(0, 256, MEMORY_BYTES, dtype=np.uint8)
    dut = ReadMaster(variant=variant)
    errors = {int(a) * variant.bus_bytes: 2 for a in rng.integers(0, 4096, 100)}
    slave = AxiSlave(
        variant, memory, rng, read_latency=5, extra_latency=20, stall=stall, interleave=True,
        read_errors=errors,
    )  # fmt: skip
    bench = Bench(dut)
    bench.background(slave.reads(dut.ar, dut.r))
    wants, gots = [], []
    for reader in range(2):
        requests, got = random_requests(rng, variant, 15), []
        bench.foreground(source(dut.request[reader], requests, rng, 0.2))
        bench.background(sink(dut.data[reader], got, rng, 0.4))
        wants.append(expected(slave, requests))
        gots.append(got)
    bench.until(lambda: all(len(g) >= len(w) for g, w in zip(gots, wants, strict=True)))
    bench.run()
    assert gots == wants
    assert slave.most_open_reads == variant.bus.read_bursts


@pytest.mark.parametrize("first", [32, 31, 1])
def test_space_is_reserved_before_ar(first: int, rng: np.random.Generator) -> None:
    """Readers that take nothing: their FIFOs fill, one short burst first, and the slave never
    waits. A burst of 32 is asked for while 32 words are free, and not while 31 are."""
    dut = ReadMaster(variant=TINY)
    slave = AxiSlave(TINY, np.zeros(MEMORY_BYTES, dtype=np.uint8), rng, read_latency=3)
    bench = Bench(dut)
    bench.background(slave.reads(dut.ar, dut.r))
    full = 0
    for reader in range(2):
        depth = fifo_depth_words(TINY, reader)
        full += depth - (depth - first) % 32
        requests = [{"address": 0, "beats": first}, {"address": 0, "beats": 4096}]
        bench.background(source(dut.request[reader], requests))

    async def settle(ctx) -> None:
        await ctx.tick().repeat(full + 300)

    bench.foreground(settle)
    bench.run()
    assert slave.beats_read == full


@pytest.mark.parametrize("beats", [32, 8])
def test_latency_is_hidden(beats: int, rng: np.random.Generator) -> None:
    """64 cycles of latency cost nothing: 16 open bursts cover them."""
    variant = load_variant("vta")
    dut = ReadMaster(variant=variant)
    slave = AxiSlave(variant, np.zeros(MEMORY_BYTES, dtype=np.uint8), rng, read_latency=64)
    count = 1600 // beats
    requests = [{"address": 32 * n, "beats": beats} for n in range(count)]
    bench, got = Bench(dut), []
    bench.background(slave.reads(dut.ar, dut.r), sink(dut.data[1], got))
    bench.foreground(source(dut.request[1], requests))
    bench.until(lambda: len(got) == beats * count)
    cycles = bench.run()
    print(f"{beats}-beat rows: {beats * count} beats in {cycles} cycles")
    assert cycles <= beats * count + 64 + 12


def test_stop_drains_and_reset_forgets(rng: np.random.Generator) -> None:
    dut, reset = ReadMaster(variant=TINY), Signal()
    memory = rng.integers(0, 256, MEMORY_BYTES, dtype=np.uint8)
    slave = AxiSlave(TINY, memory, rng, read_latency=10, stall=0.3)
    bench = Bench(ResetInserter(reset)(dut))
    bench.background(slave.reads(dut.ar, dut.r))
    after = [{"address": 77, "beats": 50}]
    got: list[dict[str, int]] = []

    async def scenario(ctx) -> None:
        for reader in range(2):
            ctx.set(dut.request[reader].payload, {"address": 5, "beats": 300})
            ctx.set(dut.request[reader].valid, 1)
        await ctx.tick().repeat(2)
        for reader in range(2):
            ctx.set(dut.request[reader].valid, 0)
        await ctx.tick().repeat(30)
        ctx.set(dut.stop, 1)
        assert not ctx.get(dut.drained)
        await ctx.tick().until(dut.drained)
        bursts = len(slave.bursts_read)
        assert all(burst.served == burst.beats for burst in slave.bursts_read)
        await ctx.tick().repeat(20)
        assert len(slave.bursts_read) == bursts, "a burst started while stopped"
        ctx.set(reset, 1)
        await ctx.tick()
        ctx.set(reset, 0)
        ctx.set(dut.stop, 0)
        await source(dut.request[1], after)(ctx)
        await sink_until(ctx, len(expected(slave, after)))

    async def sink_until(ctx, count: int) -> None:
        ctx.set(dut.data[1].ready, 1)
        while len(got) < count:
            _, _, valid, word = await ctx.tick().sample(dut.data[1].valid, dut.data[1].payload)
            if valid:
                got.append({"data": word.data, "response": word.response})

    bench.foreground(scenario)
    bench.run()
    assert got == expected(slave, after)


def test_beats_are_counted(rng: np.random.Generator) -> None:
    dut = ReadMaster(variant=TINY)
    slave = AxiSlave(TINY, np.zeros(MEMORY_BYTES, dtype=np.uint8), rng, stall=0.2)
    bench, got, beats = Bench(dut), [], []

    async def count(ctx) -> None:
        while True:
            _, _, beat = await ctx.tick().sample(dut.beat)
            beats.append(beat)

    bench.background(slave.reads(dut.ar, dut.r), sink(dut.data[0], got), count)
    bench.foreground(source(dut.request[0], [{"address": 3, "beats": 45}]))
    bench.until(lambda: len(got) == 45)
    bench.run()
    assert sum(beats) == 45


def test_more_readers_than_ids_are_refused() -> None:
    with pytest.raises(ValueError, match="readers must be 1 to 2, not 3"):
        ReadMaster(variant=TINY, readers=3)
