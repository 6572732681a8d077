"""FillBuffer against a list: fills in order, and ends behind their last fill."""

from typing import Any

import numpy as np
import pytest

from daedal.hw.load.fill_buffer import FillBuffer
from daedal.isa.variant import load_variant
from tests.hw.stream_bench import Bench, plain, sink

TINY = load_variant("tiny")


@pytest.mark.parametrize("stall", [0.0, 0.3, 0.8])
def test_fills_and_ends_come_in_order(stall: float, rng: np.random.Generator) -> None:
    """An end is told one cycle after all fills before it were accepted, and not sooner."""
    dut = FillBuffer(variant=TINY)
    bench = Bench(dut)
    sent: list[Any] = []
    got: list[Any] = []
    sent_before: list[int] = []
    accepted_at_end: list[int] = []
    retired: list[int] = []

    async def mover(ctx: Any) -> None:
        for number in range(400):
            moves, ends = rng.random() < 0.7, rng.random() < 0.2
            ctx.set(dut.move.fill.row, number)
            ctx.set(dut.over_as.tag, number)
            while not (ctx.get(dut.ready) and not (ends and ctx.get(dut.ending))):
                await ctx.tick()
            ctx.set(dut.move.valid, moves)
            ctx.set(dut.over, ends)
            ctx.set(dut.over_alone, ends and not moves)
            if moves:
                sent.append(number)
            if ends:
                sent_before.append(len(sent))
            await ctx.tick()
            ctx.set(dut.move.valid, 0)
            ctx.set(dut.over, 0)
            ctx.set(dut.over_alone, 0)
        await ctx.tick().repeat(60)

    async def ends(ctx: Any) -> None:
        while True:
            accepted = len(got)
            _, _, valid, record = await ctx.tick().sample(dut.retire.valid, dut.retire.payload)
            if valid:
                accepted_at_end.append(accepted)
                retired.append(plain(record)["tag"])

    bench.foreground(mover)
    bench.background(sink(dut.fill, got, rng, stall), ends)
    cycles = bench.run()
    assert [fill["row"] for fill in got] == sent
    assert len(retired) == len(sent_before)
    assert retired == sorted(retired)
    assert all(now >= wanted for now, wanted in zip(accepted_at_end, sent_before, strict=True))
    if stall == 0:
        # Two ends in a row are a cycle apart; nothing else waits.
        assert cycles <= 400 + len(retired) + 64
