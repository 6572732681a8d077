"""BlockFifo against a queue."""

import numpy as np
import pytest

from daedal.hw.parts.block_fifo import BlockFifo
from tests.hw.stream_bench import Bench, sink, source


@pytest.mark.parametrize("depth", [2, 8, 64])
@pytest.mark.parametrize("gaps", [(0.0, 0.0), (0.5, 0.1), (0.1, 0.5), (0.4, 0.4)])
def test_items_come_in_order(
    depth: int, gaps: tuple[float, float], rng: np.random.Generator
) -> None:
    dut = BlockFifo(shape=16, depth=depth)
    items = [int(value) for value in rng.integers(0, 1 << 16, 300)]
    bench, got = Bench(dut), []
    bench.foreground(source(dut.i, items, rng, gaps[0]))
    bench.background(sink(dut.o, got, rng, gaps[1]))
    bench.until(lambda: len(got) == len(items))
    bench.run()
    assert got == items


def test_an_item_passes_every_cycle(rng: np.random.Generator) -> None:
    dut = BlockFifo(shape=16, depth=8)
    bench, got = Bench(dut), []
    bench.foreground(source(dut.i, range(200)))
    bench.background(sink(dut.o, got))
    bench.until(lambda: len(got) == 200)
    assert bench.run() <= 200 + 5


@pytest.mark.parametrize("depth", [8, 16])
def test_it_holds_at_least_its_depth(depth: int, rng: np.random.Generator) -> None:
    """With nothing taken, `depth` items and no more than the skid's four go in."""
    dut = BlockFifo(shape=8, depth=depth)
    bench, taken = Bench(dut), []

    async def count(ctx) -> None:
        while True:
            _, _, valid, ready = await ctx.tick().sample(dut.i.valid, dut.i.ready)
            taken.append(valid and ready)

    async def wait(ctx) -> None:
        await ctx.tick().repeat(60)

    bench.background(source(dut.i, range(100)), count)
    bench.foreground(wait)
    bench.run()
    assert depth <= sum(taken) <= depth + 4


@pytest.mark.parametrize("depth", [0, 1, 12])
def test_other_depths_are_refused(depth: int) -> None:
    with pytest.raises(
        ValueError, match=f"depth must be a power of two of at least 2, not {depth}"
    ):
        BlockFifo(shape=8, depth=depth)
