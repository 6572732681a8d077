"""Token counters against a count-by-count model."""

import numpy as np
import pytest
from amaranth.sim import Simulator

from daedal.hw.issue.tokens import QUEUED_UNITS, TokenFile
from daedal.isa.registers import ErrorCode
from daedal.isa.table import Unit
from daedal.isa.variant import load_variant

TINY = load_variant("tiny")
VARIANTS = {"tiny": TINY, "narrow-tokens": TINY.replace("few", token_bits=2, queue_depth=2)}


def simulate(component, *testbenches) -> None:
    simulator = Simulator(component)
    simulator.add_clock(1e-6)
    for testbench in testbenches:
        simulator.add_testbench(testbench)
    simulator.run()


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("seed", range(2))
def test_counters_follow_the_model(name: str, seed: int) -> None:
    variant = VARIANTS[name]
    largest = (1 << variant.units.token_bits) - 1
    rng = np.random.default_rng(seed)
    file = TokenFile(variant=variant)

    async def drive(ctx) -> None:
        count = np.zeros((4, 4), dtype=int)  # giver, taker
        for _ in range(400):
            for taker in QUEUED_UNITS:
                available = ctx.get(file.available[taker])
                plenty = ctx.get(file.plenty[taker])
                assert available == sum(int(count[g, taker] > 0) << g for g in range(4))
                assert plenty == sum(int(count[g, taker] > 1) << g for g in range(4))
                take = int(rng.integers(16)) & available
                ctx.set(file.take[taker], take)
                for giver in range(4):
                    count[giver, taker] -= take >> giver & 1
            for giver in QUEUED_UNITS:
                retire = file.retire[giver]
                push = int(rng.integers(16)) & ~(1 << giver)
                for taker in range(4):
                    if count[giver, taker] == largest:
                        push &= ~(1 << taker)
                valid = int(rng.integers(2))
                ctx.set(retire.valid, valid)
                ctx.set(retire.payload.push, push)
                for taker in range(4):
                    count[giver, taker] += valid & (push >> taker)
            for taker in QUEUED_UNITS:
                coming = ctx.get(file.coming[taker])
                for giver in QUEUED_UNITS:
                    retire = file.retire[giver]
                    gives = ctx.get(retire.valid) & ctx.get(retire.payload.push) >> taker
                    assert coming >> giver & 1 == gives & 1
            assert ctx.get(file.error.valid) == 0
            await ctx.tick()
            assert ctx.get(file.left) == bool(count.any())

    simulate(file, drive)


def test_one_token_too_many_names_the_giver() -> None:
    file = TokenFile(variant=VARIANTS["narrow-tokens"])

    async def drive(ctx) -> None:
        ctx.set(file.retire[3].valid, 1)
        ctx.set(file.retire[3].payload.push, 1 << Unit.LOAD)
        for index in range(3):
            ctx.set(file.retire[3].payload.index, index)
            assert ctx.get(file.error.valid) == 0
            await ctx.tick()
        # Taken in the same cycle, the count stays and nothing overflows.
        ctx.set(file.take[0], 1 << Unit.STORE)
        await ctx.tick()
        ctx.set(file.retire[3].valid, 0)
        ctx.set(file.take[0], 0)
        await ctx.tick()
        assert ctx.get(file.error.valid) == 0
        ctx.set(file.retire[3].valid, 1)
        ctx.set(file.retire[3].payload.index, 77)
        await ctx.tick()
        ctx.set(file.retire[3].valid, 0)
        await ctx.tick()
        assert ctx.get(file.error.valid) == 1
        assert ctx.get(file.error.code) == ErrorCode.TOKEN_OVERFLOW
        assert (ctx.get(file.error_unit), ctx.get(file.error.index)) == (Unit.STORE, 77)
        await ctx.tick()
        assert ctx.get(file.error.valid) == 0

    simulate(file, drive)
