"""Issue gates: order, tokens, marks and classes, behind the queue that each of them has."""

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.sim import Simulator

from daedal.hw.interfaces import Activity
from daedal.hw.issue.gate import IssueGate
from daedal.hw.issue.tokens import TokenFile
from daedal.isa.registers import CycleClass, ErrorCode
from daedal.isa.table import Opcode, Unit, instruction_layout
from daedal.isa.variant import load_variant

TINY = load_variant("tiny")


def simulate(component, *testbenches) -> None:
    simulator = Simulator(component)
    simulator.add_clock(1e-6)
    for testbench in testbenches:
        simulator.add_testbench(testbench)
    simulator.run()


async def hold(ctx, gate: IssueGate, word: int, index: int = 0) -> None:
    """Give the gate an instruction, and wait until it stands at its output."""
    ctx.set(gate.queue.p.instruction, word)
    ctx.set(gate.queue.p.index, index)
    ctx.set(gate.queue.valid, 1)
    await ctx.tick()
    ctx.set(gate.queue.valid, 0)
    await ctx.tick()


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
            self.gate.available.eq(self.file.available[1]),
            self.gate.plenty.eq(self.file.plenty[1]),
            self.gate.coming.eq(self.file.coming[1]),
            self.file.take[1].eq(self.gate.take),
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
                retire = file.retire[giver]
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
            assert not valid or not ctx.get(gate.vacant)
            if valid and ready:
                index = ctx.get(gate.issue.p.index)
                assert index == len(issued) == ctx.get(gate.issue.p.instruction.tag)
                issued.append(index)
                for giver in range(4):
                    taken[giver] += pops[index] >> giver & 1
                assert (taken <= given).all()
            await ctx.tick()
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
            ctx.set(gate.available, 15)
            ctx.set(gate.issue.ready, 1)
            await hold(ctx, gate, word, 9)
            assert ctx.get(gate.issue.valid) == 0
            assert ctx.get(gate.error.valid) == 1
            assert ctx.get(gate.error.code) == ErrorCode.ILLEGAL_INSTRUCTION
            assert ctx.get(gate.error.index) == 9

        simulate(gate, drive)


def test_a_mark_waits_for_room_only_while_marks_are_on() -> None:
    gate = IssueGate(variant=TINY, opcode=Opcode.STORE)

    async def drive(ctx) -> None:
        ctx.set(gate.issue.ready, 1)
        await hold(ctx, gate, encode(Opcode.STORE, mark=1))
        assert ctx.get(gate.issue.valid) == 1
        assert ctx.get(gate.mark_taken) == 0
        ctx.set(gate.marks_enabled, 1)
        await hold(ctx, gate, encode(Opcode.STORE, mark=1))
        assert ctx.get(gate.issue.valid) == 0
        await ctx.tick()
        assert ctx.get(gate.cycle_class) == CycleClass.STALL
        ctx.set(gate.mark_coming, 1)
        assert ctx.get(gate.issue.valid) == 0
        await ctx.tick()
        ctx.set(gate.mark_coming, 0)
        ctx.set(gate.mark_available, 1)
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
        if queued:
            await hold(ctx, gate, encode(Opcode.GEMM, pop=pop))
        ctx.set(gate.issue.ready, ready)
        ctx.set(gate.activity, activity)
        await ctx.tick()
        assert CycleClass(ctx.get(gate.cycle_class)) is expected

    simulate(gate, drive)


def test_a_queue_full_of_instructions_passes_one_in_every_cycle() -> None:
    """Each pops one token; one is there, and one comes in every cycle but two."""
    unit = GatedUnit()
    gate, retire = unit.gate, unit.file.retire[0]
    depth = TINY.units.queue_depth
    gaps = {4, 9}
    issued: list[int] = []

    async def drive(ctx) -> None:
        ctx.set(gate.queue.valid, 1)
        ctx.set(gate.queue.p.instruction, encode(Opcode.GEMM, pop=1 << Unit.LOAD))
        for _ in range(depth + 3):
            await ctx.tick()
        assert not ctx.get(gate.queue.ready)
        ctx.set(gate.queue.valid, 0)
        ctx.set(gate.issue.ready, 1)
        ctx.set(retire.payload.push, 1 << Unit.GEMM)
        for cycle in range(depth + 3):
            ctx.set(retire.valid, cycle not in gaps)
            if ctx.get(gate.issue.valid):
                issued.append(cycle)
            await ctx.tick()

    simulate(unit, drive)
    # A token can be taken in the cycle after it was given.
    assert issued == [cycle + 1 for cycle in range(depth + 2) if cycle not in gaps][: depth + 1]
