"""The FIFO in distributed RAM against a Python deque, with random gaps on both sides."""

from collections import deque

import numpy as np
import pytest
from amaranth.sim import Simulator

from daedal.hw.parts.small_fifo import SmallFifo


@pytest.mark.parametrize(("width", "depth"), [(8, 1), (11, 3), (5, 16)])
@pytest.mark.parametrize("odds", [(1.0, 1.0), (0.3, 1.0), (1.0, 0.3), (0.5, 0.5)])
def test_keeps_every_word_in_order(
    width: int, depth: int, odds: tuple[float, float], rng: np.random.Generator
) -> None:
    dut = SmallFifo(width=width, depth=depth)

    async def drive(ctx) -> None:
        model: deque[int] = deque()
        for _ in range(300):
            assert ctx.get(dut.w_rdy) == (len(model) < depth)
            assert ctx.get(dut.r_rdy) == bool(model)
            word = int(rng.integers(1 << width))
            write, read = rng.random() < odds[0], rng.random() < odds[1]
            ctx.set(dut.w_data, word)
            ctx.set(dut.w_en, write)
            ctx.set(dut.r_en, read)
            full = len(model) == depth
            if model:
                assert ctx.get(dut.r_data) == model[0]
                if read:
                    model.popleft()
            if write and not full:
                model.append(word)
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(drive)
    simulator.run()


def test_refuses_a_fifo_without_room() -> None:
    with pytest.raises(ValueError, match="depth must be at least 1, not 0"):
        SmallFifo(width=8, depth=0)
