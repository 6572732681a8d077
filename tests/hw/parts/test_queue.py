"""The instruction queue against a Python deque, with random gaps on both sides."""

from collections import deque

import numpy as np
import pytest
from amaranth.sim import Simulator

from daedal.hw.layouts import entry_layout
from daedal.hw.parts.queue import Queue
from daedal.isa.variant import load_variant


@pytest.mark.parametrize(("shape", "depth"), [(8, 1), (11, 4), (5, 16)])
@pytest.mark.parametrize("odds", [(1.0, 1.0), (0.3, 1.0), (1.0, 0.3), (0.5, 0.5)])
def test_keeps_every_word_in_order(shape: int, depth: int, odds: tuple[float, float]) -> None:
    rng = np.random.default_rng(depth)
    queue = Queue(shape, depth=depth)

    async def drive(ctx) -> None:
        model: deque[int] = deque()
        passed = 0
        offered = None
        for _ in range(300):
            if offered is None and rng.random() < odds[0]:
                offered = int(rng.integers(1 << shape))
            ctx.set(queue.i.valid, offered is not None)
            ctx.set(queue.i.payload, offered or 0)
            ready = rng.random() < odds[1]
            ctx.set(queue.o.ready, ready)
            assert ctx.get(queue.empty) == (not model)
            if ctx.get(queue.o.valid) and ready:
                assert ctx.get(queue.o.payload) == model.popleft()
                passed += 1
            if ctx.get(queue.i.ready) and offered is not None:
                model.append(offered)
                offered = None
            assert len(model) <= depth + 1
            await ctx.tick()
        assert passed > 300 * min(odds) * (0.7 if depth > 1 else 0.4) - 10

    simulator = Simulator(queue)
    simulator.add_clock(1e-6)
    simulator.add_testbench(drive)
    simulator.run()


def test_holds_instructions_with_their_index() -> None:
    variant = load_variant("tiny")
    queue = Queue(entry_layout(variant), depth=variant.units.queue_depth)

    async def drive(ctx) -> None:
        ctx.set(queue.i.valid, 1)
        ctx.set(queue.i.p.instruction, (1 << 127) | 5)
        ctx.set(queue.i.p.index, 3)
        await ctx.tick()
        ctx.set(queue.i.valid, 0)
        await ctx.tick().until(queue.o.valid)
        assert ctx.get(queue.o.p.instruction) == (1 << 127) | 5
        assert ctx.get(queue.o.p.index) == 3

    simulator = Simulator(queue)
    simulator.add_clock(1e-6)
    simulator.add_testbench(drive)
    simulator.run()


def test_refuses_a_queue_without_room() -> None:
    with pytest.raises(ValueError, match="a queue's depth must be at least 1, not 0"):
        Queue(8, depth=0)
