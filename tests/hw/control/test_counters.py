"""Counters: every running cycle is counted in one class, and nothing else."""

import numpy as np
import pytest
from amaranth.sim import Simulator

from daedal.hw.control.counters import Counters
from daedal.hw.issue.tokens import QUEUED_UNITS
from daedal.isa.registers import CLASSES
from daedal.isa.table import Unit
from daedal.isa.variant import load_variant

TINY = load_variant("tiny")


@pytest.mark.parametrize("full", [True, False])
def test_counts_while_running_and_then_holds(full: bool, rng: np.random.Generator) -> None:
    counters = Counters(variant=TINY.replace(counters=full))
    cycles = 50
    kinds = rng.integers(len(CLASSES), size=(cycles, len(Unit)))
    work = rng.integers(2, size=(cycles, len(Unit)))
    beats = rng.integers(2, size=(cycles, 2))

    async def drive(ctx) -> None:
        def events(cycle: int) -> None:
            for unit in Unit:
                # A gate says the class of the cycle before.
                late = 1 if unit in QUEUED_UNITS else 0
                kind = kinds[max(0, cycle - late), unit]
                ctx.set(counters.cycle_class[unit], int(kind))
                ctx.set(counters.work[unit], int(work[cycle, unit]))
            ctx.set(counters.beat_read, int(beats[cycle, 0]))
            ctx.set(counters.beat_written, int(beats[cycle, 1]))

        for _ in range(2):  # the second run starts from zero again
            events(0)  # before the start: not counted
            ctx.set(counters.clear, 1)
            await ctx.tick()
            ctx.set(counters.clear, 0)
            ctx.set(counters.running, 1)
            for cycle in range(cycles):
                events(cycle)
                await ctx.tick()
            ctx.set(counters.running, 0)
            for unit in QUEUED_UNITS:
                ctx.set(counters.cycle_class[unit], int(kinds[-1, unit]))
            await ctx.tick().repeat(5)
            assert ctx.get(counters.cycles) == cycles
            assert ctx.get(counters.beats_read) == beats[:, 0].sum()
            assert ctx.get(counters.beats_written) == beats[:, 1].sum()
            for unit in Unit:
                counts = counters.counts[unit]
                seen = [ctx.get(counts[number]) for number in range(len(CLASSES) + 1)]
                expected = [*(kinds[:, unit] == k for k in CLASSES), work[:, unit]]
                assert seen == [int(e.sum()) * full for e in expected]

    simulator = Simulator(counters)
    simulator.add_clock(1e-6)
    simulator.add_testbench(drive)
    simulator.run()
