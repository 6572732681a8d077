"""The tally against a number, and its flags in every cycle."""

import numpy as np
import pytest
from amaranth.sim import Simulator

from daedal.hw.parts.tally import Tally


@pytest.mark.parametrize("most", [1, 2, 4, 7, 32])
@pytest.mark.parametrize("drift", [0.3, 0.5, 0.7])
def test_flags_follow_the_count(most: int, drift: float, rng: np.random.Generator) -> None:
    tally = Tally(most=most)
    seen: set[int] = set()

    async def drive(ctx) -> None:
        count = 0
        for _ in range(400):
            seen.add(count)
            assert (ctx.get(tally.none), ctx.get(tally.full)) == (count == 0, count == most)
            up, down = rng.random() < drift, rng.random() < 1 - drift
            # Alone, neither may pass its end; together they leave the count as it is.
            up = up and (down or count < most)
            down = down and (up or count > 0)
            ctx.set(tally.up, up)
            ctx.set(tally.down, down)
            count += up - down
            await ctx.tick()

    simulator = Simulator(tally)
    simulator.add_clock(1e-6)
    simulator.add_testbench(drive)
    simulator.run()
    assert len(seen) > 1


def test_refuses_a_count_of_nothing() -> None:
    with pytest.raises(ValueError, match="most must be at least 1, not 0"):
        Tally(most=0)
