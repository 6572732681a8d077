"""The poisoned memory that other tests rely on does lie, and only when a read collides."""

import pytest
from amaranth.sim import Simulator

from daedal.hw.memory import row_memory
from tests.support.poisoned_memory import poison_block_ram


@pytest.mark.parametrize("poisoned", [False, True])
def test_only_a_colliding_read_is_poisoned(poisoned: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if poisoned:
        poison_block_ram(monkeypatch)
    dut = row_memory.RowMemory(depth=4, columns=2, column_bits=8)
    seen = []

    async def bench(ctx) -> None:
        async def step(row: int, write_row: int, enable: int, data: int) -> None:
            ctx.set(dut.read.enable, 1)
            ctx.set(dut.read.row, row)
            ctx.set(dut.write.row, [write_row, write_row])
            ctx.set(dut.write.enable, enable)
            ctx.set(dut.write.data, data)
            await ctx.tick()
            seen.append(ctx.get(dut.read.data))

        await step(0, 1, 0b11, 0x1234)
        await step(1, 1, 0b01, 0x55FF)  # one column collides
        await step(1, 2, 0b11, 0x5555)
        await step(1, 1, 0b00, 0x0000)
        await step(0, 0, 0b00, 0x0000)

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    assert seen[2:] == [0x12CB if poisoned else 0x1234, 0x12FF, 0x12FF]
