"""Countdown against a plain count."""

from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Elaboratable, Module, Signal

from daedal.hw.parts.countdown import Countdown
from tests.hw.stream_bench import Bench


class Dut(Elaboratable):
    """A countdown that is stepped from outside, and loaded at its last item."""

    def __init__(self, bits: int) -> None:
        self.total = Signal(bits)
        self.start, self.step, self.last, self.last_but_one = (Signal() for _ in range(4))
        self._bits = bits

    def elaborate(self, platform: object) -> Module:
        m = Module()
        count = Countdown(self._bits, name="count")
        m.d.comb += [self.last.eq(count.last), self.last_but_one.eq(count.last_but_one)]
        with m.If(self.start | (self.step & count.last)):
            count.load(m, self.total)
        with m.Elif(self.step):
            count.step(m)
        return m


@pytest.mark.parametrize("bits", [1, 3, 12])
def test_the_last_item_is_known(bits: int, rng: np.random.Generator) -> None:
    dut = Dut(bits)
    bench = Bench(dut)

    async def steps(ctx: Any) -> None:
        left = int(rng.integers(1, min(1 << bits, 40)))
        ctx.set(dut.total, left)
        ctx.set(dut.start, 1)
        await ctx.tick()
        ctx.set(dut.start, 0)
        for _ in range(500):
            assert ctx.get(dut.last) == (left == 1)
            assert ctx.get(dut.last_but_one) == (left == 2)
            step = rng.random() < 0.6
            total = int(rng.integers(1, min(1 << bits, 40)))
            ctx.set(dut.step, step)
            ctx.set(dut.total, total)
            await ctx.tick()
            if step:
                left = total if left == 1 else left - 1

    bench.foreground(steps)
    bench.run()
