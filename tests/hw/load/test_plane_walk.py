"""The walks over planes alone: which positions lie past the end of a scratchpad."""

from collections.abc import Mapping
from typing import Any

import pytest
from amaranth.sim import Simulator

from daedal.hw.load.plane_walk import DataWalk, PadWalk
from daedal.isa.scratchpad import scratchpad
from daedal.isa.table import LoadMemory
from daedal.isa.transfer import memory_beats
from daedal.isa.variant import load_variant

TINY = load_variant("tiny")
LAST_CYCLE = 100


def positions(walk: DataWalk | PadWalk, job: Mapping[str, Any]) -> list[tuple[str, int]]:
    """What an instruction's positions are, and their rows, stepped over in every cycle."""
    found: list[tuple[str, int]] = []

    async def drive(ctx: Any) -> None:
        ctx.set(walk.job.payload, job)
        ctx.set(walk.job.valid, 1)
        for _ in range(LAST_CYCLE):
            if ctx.get(walk.valid):
                kinds = ("writes", "skips", "done", "beyond")
                (kind,) = (kind for kind in kinds if ctx.get(getattr(walk, kind)))
                found.append((kind, ctx.get(walk.row)))
                if ctx.get(walk.last):
                    return
            ctx.set(walk.step, ctx.get(walk.valid))
            await ctx.tick()
        pytest.fail("the walk must come to its last position")

    simulator = Simulator(walk)
    simulator.add_clock(1e-6)
    simulator.add_testbench(drive)
    simulator.run()
    return found


@pytest.mark.parametrize("memory", LoadMemory.of(TINY))
def test_data_past_the_end(memory: LoadMemory) -> None:
    """From the first row behind the memory on, and of every word of a row."""
    depth = scratchpad(TINY, memory.memory).depth_rows
    lines = {"blocks": 1, "rows": 1, "has_data": 1}
    job = {"memory": memory, "lines": lines, "first": depth - 2, "cols": 4, "width": 4}
    words = memory_beats(TINY, memory)
    rows = [("writes", depth - 2), ("writes", depth - 1), ("beyond", depth), ("beyond", depth + 1)]
    walk = DataWalk(variant=TINY)
    expected = [(kind, row % (1 << len(walk.row))) for kind, row in rows for _ in range(words)]
    assert positions(walk, job) == expected


def test_pads_past_the_end() -> None:
    depth = scratchpad(TINY, LoadMemory.INP.memory).depth_rows
    lines = {"blocks": 1, "top": 1, "has_top": 1}
    job = {"memory": LoadMemory.INP, "lines": lines, "first": depth - 1, "has_pads": 1, "width": 3}
    kinds = [kind for kind, _ in positions(PadWalk(variant=TINY), job)]
    assert kinds == ["writes", "beyond", "beyond"]
