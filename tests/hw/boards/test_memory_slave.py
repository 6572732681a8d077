"""On-chip memory behind AXI4: bursts with stalls on every channel, and the host beside them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from daedal.hw.boards.block_memory import BANK_WORDS, READ_LATENCY_CYCLES, BlockMemory
from daedal.hw.boards.memory_slave import MemorySlave
from daedal.isa.variant import load_variant
from tests.hw.stream_bench import Bench, sink, source

TINY = load_variant("tiny")
WIDE = load_variant("vta").replace("wide", data_bits=128, address_bits=40)
WORDS = 2 * BANK_WORDS  # two banks
OKAY, DECERR = 0, 3


@dataclass
class Traffic:
    """Random bursts: reads of the upper half of memory, writes to the lower one's middle."""

    variant: Any
    rng: np.random.Generator
    count: int

    @property
    def size(self) -> int:
        return self.variant.bus_bytes

    def bursts(self, low: int, high: int) -> list[dict[str, int]]:
        """Within the words ``[low, high)``; some beyond memory, none across 4 KiB."""
        page = 4096 // self.size
        found = []
        for _ in range(self.count):
            beats = int(self.rng.choice([1, 2, 7, 32]))
            start = int(self.rng.integers(low, high - beats))
            start = min(start, (start // page + 1) * page - beats)
            if self.rng.random() < 0.2:
                start = WORDS + int(self.rng.integers(1 << 20)) // page * page
            found.append(
                {"id": int(self.rng.integers(2)), "addr": start * self.size, "len": beats - 1}
            )
        return found

    def word(self) -> int:
        return int.from_bytes(self.rng.bytes(self.size), "little")


async def access(ctx, host, address: int, strobes: int = 0, word: int = 0) -> None:
    """One pulse of the host."""
    ctx.set(host.address, address)
    ctx.set(host.strobes, strobes)
    ctx.set(host.data, word)
    ctx.set(host.valid, 1)
    await ctx.tick()
    ctx.set(host.valid, 0)


async def read_word(ctx, host, address: int) -> int:
    await access(ctx, host, address)
    for _ in range(READ_LATENCY_CYCLES):
        assert not ctx.get(host.word_valid)
        await ctx.tick()
    assert ctx.get(host.word_valid)
    return ctx.get(host.word)


def merged(old: int, new: int, strobes: int) -> int:
    """`new` where a byte is strobed."""
    mask = sum(0xFF << 8 * lane for lane in range(16) if strobes >> lane & 1)
    return old & ~mask | new & mask


@pytest.mark.parametrize("variant", [TINY, WIDE], ids=["64 bits", "128 bits"])
@pytest.mark.parametrize("stall", [0.0, 0.4])
def test_bursts_and_the_host_at_the_same_time(variant, stall, rng: np.random.Generator) -> None:
    """Three regions: one that is read in bursts, one written in bursts, one of the host's own."""
    traffic = Traffic(variant, rng, 25)
    dut = MemorySlave(variant=variant, num_words=WORDS)
    size = traffic.size
    reads = traffic.bursts(1800, 2300)  # both banks
    contents = {address: traffic.word() for address in range(1800, 2300)}
    expected_reads, model, words, answers = [], {}, [], []
    for burst in reads:
        start, beyond = burst["addr"] // size, burst["addr"] // size >= WORDS
        for beat in range(burst["len"] + 1):
            data = None if beyond else contents[start + beat]
            resp = DECERR if beyond else OKAY
            last = int(beat == burst["len"])
            expected_reads.append({"id": burst["id"], "data": data, "resp": resp, "last": last})
    writes = traffic.bursts(100, 700)
    for burst in writes:
        start, beyond = burst["addr"] // size, burst["addr"] // size >= WORDS
        answers.append({"id": burst["id"], "resp": DECERR if beyond else OKAY})
        for beat in range(burst["len"] + 1):
            word, strobes = traffic.word(), int(rng.integers(1 << size))
            words.append({"data": word, "strb": strobes, "last": int(beat == burst["len"])})
            if not beyond:
                model[start + beat] = merged(model.get(start + beat, 0), word, strobes)
    got_reads: list[dict[str, int]] = []
    got_answers: list[dict[str, int]] = []
    begun = []

    async def host(ctx) -> None:
        for address, word in contents.items():
            await access(ctx, dut.host, address, (1 << size) - 1, word)
        begun.append(True)
        mine = {}
        for _ in range(150):
            address = int(rng.integers(3000, 3020))
            if rng.random() < 0.5:
                word, strobes = traffic.word(), int(rng.integers(1, 1 << size))
                await access(ctx, dut.host, address, strobes, word)
                mine[address] = merged(mine.get(address, 0), word, strobes)
            else:
                assert await read_word(ctx, dut.host, address) == mine.get(address, 0)
        while len(got_answers) < len(answers) or len(got_reads) < len(expected_reads):
            await ctx.tick()
        for address in range(100, 700):
            assert await read_word(ctx, dut.host, address) == model.get(address, 0), address

    def after_host(bench):
        async def waiting(ctx) -> None:
            while not begun:
                await ctx.tick()
            await bench(ctx)

        return waiting

    bench = Bench(dut)
    bench.foreground(host)
    bench.background(
        after_host(source(dut.ar, reads, rng, stall)),
        after_host(source(dut.aw, writes, rng, stall)),
        after_host(source(dut.w, words, rng, stall)),
        sink(dut.r, got_reads, rng, stall),
        sink(dut.b, got_answers, rng, stall),
    )
    bench.run(cap_cycles=60_000)
    assert got_answers == answers
    for found, wanted in zip(got_reads, expected_reads, strict=True):
        assert found == wanted | ({"data": found["data"]} if wanted["data"] is None else {})


def test_words_move_every_cycle_in_both_directions(rng: np.random.Generator) -> None:
    """Bursts of 32 without a gap, and the latencies that the docstring states."""
    dut = MemorySlave(variant=TINY, num_words=WORDS)
    bursts = [{"id": 0, "addr": 256 * number, "len": 31} for number in range(16)]
    words = [{"data": n, "strb": 0xFF, "last": int(n % 32 == 31)} for n in range(512)]
    seen: dict[str, list[int]] = {name: [] for name in ("ar", "r", "aw", "w", "b")}
    got: dict[str, list] = {"r": [], "b": []}

    async def watch(ctx) -> None:
        cycle = 0
        channels = [getattr(dut, name) for name in seen]
        while True:
            for name, channel in zip(seen, channels, strict=True):
                if ctx.get(channel.valid) and ctx.get(channel.ready):
                    seen[name].append(cycle)
            await ctx.tick()
            cycle += 1

    bench = Bench(dut)
    bench.background(
        source(dut.ar, bursts),
        source(dut.aw, bursts),
        source(dut.w, words),
        sink(dut.r, got["r"]),
        sink(dut.b, got["b"]),
        watch,
    )
    bench.until(lambda: len(got["r"]) == 512 and len(got["b"]) == 16)
    bench.run()
    assert seen["r"][-1] - seen["r"][0] == 511
    # Two words are taken before their burst is known.
    assert seen["w"][-1] - seen["w"][2] == 509
    assert seen["r"][0] - seen["ar"][0] == 11
    assert seen["b"][-1] - seen["w"][-1] == 3


def test_memory_is_whole_banks() -> None:
    with pytest.raises(ValueError, match="num_words must be a multiple of 2048, not 3000"):
        BlockMemory(num_words=3000, word_bytes=8)
