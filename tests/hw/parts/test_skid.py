"""The skid buffer: words in order under random stalls, none late, and no path between its sides."""

import numpy as np
import pytest
from amaranth.sim import Simulator

from daedal.hw.parts.skid import SkidBuffer
from tests.hw.stream_bench import Bench, sink, source


@pytest.mark.parametrize("gap", [0.0, 0.3, 0.7])
def test_keeps_every_word_in_order(gap: float, rng: np.random.Generator) -> None:
    words = [int(word) for word in rng.integers(1 << 9, size=200)]
    dut = SkidBuffer(9)
    bench, got = Bench(dut), []
    bench.foreground(source(dut.i, words, rng, gap))
    bench.background(sink(dut.o, got, rng, gap))
    bench.until(lambda: len(got) >= len(words))
    cycles = bench.run()
    assert got == words
    if gap == 0:
        assert cycles <= len(words) + 4


def test_takes_two_words_and_then_none_whatever_comes_out() -> None:
    dut = SkidBuffer(4)

    async def drive(ctx) -> None:
        ctx.set(dut.i.valid, 1)
        for word, ready in ((1, 1), (2, 1), (3, 0)):
            ctx.set(dut.i.payload, word)
            assert ctx.get(dut.i.ready) == ready
            await ctx.tick()
        ctx.set(dut.o.ready, 1)
        assert ctx.get(dut.i.ready) == 0
        for word in (1, 2, 3):
            assert (ctx.get(dut.o.valid), ctx.get(dut.o.payload)) == (1, word)
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(drive)
    simulator.run()
