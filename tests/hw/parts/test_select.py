"""One of several values by a bit for each."""

import numpy as np
import pytest
from amaranth.hdl import Module, Signal
from amaranth.sim import Simulator

from daedal.hw.parts.select import select_one


@pytest.mark.parametrize("count", [1, 3, 8])
def test_takes_the_value_whose_bit_is_set(count: int, rng: np.random.Generator) -> None:
    which, chosen = Signal(count), Signal(9)
    values = [int(value) for value in rng.integers(1, 512, size=count)]
    m = Module()
    m.d.comb += chosen.eq(select_one(which, values))

    async def drive(ctx) -> None:
        assert ctx.get(chosen) == 0
        for number, value in enumerate(values):
            ctx.set(which, 1 << number)
            assert ctx.get(chosen) == value

    simulator = Simulator(m)
    simulator.add_testbench(drive)
    simulator.run()


def test_refuses_bits_without_a_value() -> None:
    with pytest.raises(ValueError, match="which must have one bit for each of 2 values, not 3"):
        select_one(Signal(3), [1, 2])
