"""Token counters and issue gates against a count-by-count model."""

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.sim import Simulator

from daedal.hw.interfaces import Activity
from daedal.hw.tokens import QUEUED_UNITS, IssueGate, TokenFile
from daedal.isa.registers import CycleClass, ErrorCode
from daedal.isa.table import Opcode, Unit, instruction_layout
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
                available = ctx.get(getattr(file, f"available{taker:d}"))
                assert available == sum(int(count[g, taker] > 0) << g for g in range(4))
                take = int(rng.integers(16)) & available
                ctx.set(getattr(file, f"take{taker:d}"), take)
                for giver in range(4):
                    count[giver, taker] -= take >> giver & 1
            for giver in QUEUED_UNITS:
                retire = getattr(file, f"retire{giver:d}")
                push = int(rng.integers(16)) & ~(1 << giver)
                for taker in range(4):
                    if count[giver, taker] == largest:
                        push &= ~(1 << taker)
                valid = int(rng.integers(2))
                ctx.set(retire.valid, valid)
                ctx.set(retire.payload.push, push)
                for taker in range(4):
                    count[giver, taker] += valid & (push >> taker)
            assert ctx.get(file.error.valid) == 0
            await ctx.tick()
            assert ctx.get(file.left) == bool(count.any())

    simulate(file, drive)


def test_one_token_too_many_names_the_giver() -> None:
    file = TokenFile(variant=VARIANTS["narrow-tokens"])

    async def drive(ctx) -> None:
        ctx.set(file.retire3.valid, 1)
        ctx.set(file.retire3.payload.push, 1 << Unit.LOAD)
        for index in range(3):
            ctx.set(file.retire3.payload.index, index)
            assert ctx.get(file.error.valid) == 0
            await ctx.tick()
        ctx.set(file.retire3.payload.index, 77)
        assert ctx.get(file.error.valid) == 1
        assert ctx.get(file.error.code) == ErrorCode.TOKEN_OVERFLOW
        assert (ctx.get(file.error_unit), ctx.get(file.error.index)) == (Unit.STORE, 77)
        # Taken in the same cycle, the count stays and nothing overflows.
        ctx.set(file.take0, 1 << Unit.STORE)
        assert ctx.get(file.error.valid) == 0

    simulate(file, drive)


def encode(opcode: Opcode, **fields: int) -> int:
    layout = instruction_layout(TINY, opcode)
    word = int(opcode)
    for name, value in fields.items():
        word |= value << layout[name].offset
    return word


class GatedUnit(wiring.Component):
    """A gate of GEMM with the counters that feed it."""

    def __init__(self) -> None:
        self.gate = IssueGate(variant=TINY, opcode=Opcode.GEMM)
        self.file = TokenFile(variant=TINY)
        super().__init__({})

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.gate, m.submodules.file = self.gate, self.file
        m.d.comb += [
            self.gate.available.eq(self.file.available1),
            self.file.take1.eq(self.gate.take),
        ]
        return m


@pytest.mark.parametrize("seed", range(4))
def test_gate_issues_in_order_once_all_tokens_are_there(seed: int) -> None:
    rng = np.random.default_rng(seed)
    unit = GatedUnit()
    gate, file = unit.gate, unit.file
    pops = [int(p) & ~(1 << Unit.GEMM) for p in rng.integers(16, size=60)]
    given, taken = np.zeros(4, dtype=int), np.zeros(4, dtype=int)
    issued: list[int] = []

    async def source(ctx) -> None:
        for index, pop in enumerate(pops):
            for _ in range(int(rng.integers(3))):
                await ctx.tick()
            ctx.set(gate.queue.p.instruction, encode(Opcode.GEMM, pop=pop, tag=index))
            ctx.set(gate.queue.p.index, index)
            ctx.set(gate.queue.valid, 1)
            await ctx.tick().until(gate.queue.ready)
            ctx.set(gate.queue.valid, 0)

    async def givers(ctx) -> None:
        while True:
            for giver in (Unit.LOAD, Unit.ALU, Unit.STORE):
                retire = getattr(file, f"retire{giver:d}")
                valid = int(rng.integers(4) == 0 and given[giver] - taken[giver] < 100)
                ctx.set(retire.valid, valid)
                ctx.set(retire.payload.push, 1 << Unit.GEMM)
                given[giver] += valid
            await ctx.tick()

    async def sink(ctx) -> None:
        for _ in range(4000):
            ready = int(rng.integers(2))
            ctx.set(gate.issue.ready, ready)
            valid = ctx.get(gate.issue.valid)
            if not ctx.get(gate.queue.valid):
                assert not valid
            if valid and ready:
                index = ctx.get(gate.issue.p.index)
                assert index == len(issued) == ctx.get(gate.issue.p.instruction.tag)
                issued.append(index)
                for giver in range(4):
                    taken[giver] += pops[index] >> giver & 1
            await ctx.tick()
            assert (taken <= given).all()
            if len(issued) == len(pops):
                return
        raise AssertionError(f"only {len(issued)} of {len(pops)} instructions were issued")

    simulator = Simulator(unit)
    simulator.add_clock(1e-6)
    simulator.add_testbench(source)
    simulator.add_testbench(givers, background=True)
    simulator.add_testbench(sink)
    simulator.run()


def test_gate_refuses_an_instruction_that_names_its_own_unit() -> None:
    for field in ("pop", "push"):
        gate = IssueGate(variant=TINY, opcode=Opcode.ALU)

        async def drive(ctx, gate=gate, field=field) -> None:
            word = encode(Opcode.ALU, **{field: 1 << Unit.ALU})
            ctx.set(gate.queue.p.instruction, word)
            ctx.set(gate.queue.p.index, 9)
            ctx.set(gate.queue.valid, 1)
            ctx.set(gate.available, 15)
            ctx.set(gate.issue.ready, 1)
            assert ctx.get(gate.issue.valid) == 0
            assert ctx.get(gate.error.valid) == 1
            assert ctx.get(gate.error.code) == ErrorCode.ILLEGAL_INSTRUCTION
            assert ctx.get(gate.error.index) == 9

        simulate(gate, drive)


def test_a_mark_waits_for_room_only_while_marks_are_on() -> None:
    gate = IssueGate(variant=TINY, opcode=Opcode.STORE)

    async def drive(ctx) -> None:
        ctx.set(gate.queue.p.instruction, encode(Opcode.STORE, mark=1))
        ctx.set(gate.queue.valid, 1)
        ctx.set(gate.issue.ready, 1)
        assert ctx.get(gate.issue.valid) == 1
        assert ctx.get(gate.mark_taken) == 0
        ctx.set(gate.marks_enabled, 1)
        assert ctx.get(gate.issue.valid) == 0
        assert ctx.get(gate.cycle_class) == CycleClass.STALL
        ctx.set(gate.mark_credit, 1)
        assert ctx.get(gate.issue.valid) == 1
        assert ctx.get(gate.mark_taken) == 1

    simulate(gate, drive)


@pytest.mark.parametrize(
    ("activity", "queued", "pop", "ready", "expected"),
    [
        (Activity.BUSY, True, 1, 0, CycleClass.BUSY),
        (Activity.STALL, True, 1, 0, CycleClass.STALL),
        (Activity.DRAIN, True, 0b1001, 1, CycleClass.WAIT_LOAD),
        (Activity.NONE, True, 0b1100, 1, CycleClass.WAIT_ALU),
        (Activity.NONE, True, 0b1000, 1, CycleClass.WAIT_STORE),
        (Activity.NONE, True, 0, 1, CycleClass.BUSY),
        (Activity.NONE, True, 0, 0, CycleClass.STALL),
        (Activity.DRAIN, False, 0, 1, CycleClass.STALL),
        (Activity.NONE, False, 0, 1, CycleClass.IDLE),
    ],
)
def test_every_cycle_has_one_class(activity, queued, pop, ready, expected) -> None:
    gate = IssueGate(variant=TINY, opcode=Opcode.GEMM)

    async def drive(ctx) -> None:
        ctx.set(gate.queue.p.instruction, encode(Opcode.GEMM, pop=pop))
        ctx.set(gate.queue.valid, queued)
        ctx.set(gate.issue.ready, ready)
        ctx.set(gate.activity, activity)
        assert CycleClass(ctx.get(gate.cycle_class)) is expected

    simulate(gate, drive)
