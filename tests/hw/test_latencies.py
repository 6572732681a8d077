"""Latencies and depths that must fit together: each relation is checked when a design is built.

Where a relation can be looked at from outside, a simulation shows that what the check refuses does
go wrong, and whether the next value still works. Others are looked at elsewhere: stages of
REQUANTIZE in `test_requantize.py`, rows of OUT in `test_alu.py`, a patience of 2 and none at all in
`formal/test_accumulators.py`.
"""

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Fragment, Module, Signal
from amaranth.lib import wiring
from amaranth.sim import Simulator

from daedal.hw import machine_latencies, observe
from daedal.hw.alu import alu, requantize
from daedal.hw.alu.alu import Alu
from daedal.hw.alu.requantize import Requantizer
from daedal.hw.contracts import ElaborationError, require_at_elaboration
from daedal.hw.control import supervisor
from daedal.hw.control.supervisor import Supervisor
from daedal.hw.family import Portable
from daedal.hw.gemm import forwarding, gemm
from daedal.hw.gemm.gemm import Gemm
from daedal.hw.interfaces import Activity
from daedal.hw.issue.gate import IssueGate
from daedal.hw.issue.sequencer import Sequencer
from daedal.hw.issue.tokens import TokenFile
from daedal.hw.load.fill_buffer import FillBuffer
from daedal.hw.machine import Machine
from daedal.hw.memory import accumulators, scratchpad
from daedal.hw.memory.accumulators import Accumulators
from daedal.hw.parts import block_fifo
from daedal.hw.parts.block_fifo import BlockFifo
from daedal.hw.pipeline import delay
from daedal.hw.store import row_reader
from daedal.hw.store.row_reader import RowReader
from daedal.isa.instruction import Instruction, encode
from daedal.isa.table import AluOp, LoadMemory, Opcode, OutMemory, Unit
from daedal.isa.variant import load_variant
from tests.hw.alu import test_alu
from tests.hw.compute_bench import issue_word, random_state
from tests.hw.control import test_supervisor
from tests.hw.gemm import test_gemm
from tests.hw.parts import test_block_fifo
from tests.hw.shared_designs import forget_shared_designs
from tests.hw.stream_bench import Bench, sink, source

TINY = load_variant("tiny")


def machine(observe: bool = False) -> Machine:
    return Machine(variant=TINY, observe=observe)


RULES: list[tuple[ModuleType, str, int, Callable[[], Any], str]] = [
    # module, constant, a change that breaks the rule, what is built, the rule's beginning
    (accumulators, "ACC_READ_CYCLES", -1, lambda: Accumulators(variant=TINY), "an answer must"),
    (accumulators, "ACC_READ_CYCLES", +1, lambda: Accumulators(variant=TINY), "an answer must"),
    (accumulators, "BANK_CYCLES", +1, lambda: Accumulators(variant=TINY), "an answer must"),
    (accumulators, "PATIENCE_CYCLES", -3, lambda: Accumulators(variant=TINY), "a request must"),
    (block_fifo, "_SKID", -1, lambda: BlockFifo(shape=8, depth=8), "a FIFO must give one item"),
    (
        forwarding,
        "ACC_READ_TO_SUM_CYCLES",
        -1,
        lambda: Gemm(variant=TINY),
        "a product must be added",
    ),
    (
        forwarding,
        "ACC_READ_TO_SUM_CYCLES",
        +1,
        lambda: Gemm(variant=TINY),
        "a product must be added",
    ),
    (
        forwarding,
        "ACC_READ_TO_WRITE_CYCLES",
        -1,
        lambda: Gemm(variant=TINY),
        "a row must be written",
    ),
    (
        forwarding,
        "ACC_READ_TO_WRITE_CYCLES",
        +1,
        lambda: Gemm(variant=TINY),
        "a row must be written",
    ),
    (
        gemm,
        "GEMM_OPERAND_CYCLES",
        -1,
        lambda: Gemm(variant=TINY),
        "a product must take its operands",
    ),
    (
        gemm,
        "GEMM_OPERAND_CYCLES",
        +1,
        lambda: Gemm(variant=TINY),
        "a product must take its operands",
    ),
    (alu, "ALU_OPERAND_CYCLES", -1, lambda: Alu(variant=TINY), "a group's operands must be taken"),
    (alu, "ALU_OPERAND_CYCLES", +1, lambda: Alu(variant=TINY), "a group's operands must be taken"),
    (alu, "_PAR_LATE", -1, lambda: Alu(variant=TINY), "a group's parameters must meet"),
    (alu, "_PAR_LATE", +1, lambda: Alu(variant=TINY), "a group's parameters must meet"),
    (alu, "_RING_SPARE", -2, lambda: Alu(variant=TINY), "one group per cycle must pass"),
    (requantize, "_FIXED_STAGES", -1, lambda: Requantizer(variant=TINY), "the zero point must"),
    (requantize, "_FIXED_STAGES", +1, lambda: Requantizer(variant=TINY), "the zero point must"),
    (supervisor, "QUIET_CYCLES", -3, lambda: Supervisor(variant=TINY), "an instruction between"),
    (supervisor, "BLOCKED_CYCLES", -31, lambda: Supervisor(variant=TINY), "an instruction between"),
    (row_reader, "STORE_ROWS", -9, lambda: RowReader(variant=TINY), "rows of one word must pass"),
    (machine_latencies, "WRITE_CYCLES", +2, machine, "a fill must be in its RAM before its token"),
    (machine_latencies, "WRITE_CYCLES", +1, machine, "a result must be in its RAM before"),
    (machine_latencies, "WRITE_CYCLES", -1, machine, "STORE must get rows of OUT as late"),
    (machine_latencies, "FILL_TO_RETIRE_CYCLES", -2, machine, "a fill must be in its RAM"),
    (machine_latencies, "TOKEN_TO_ISSUE_CYCLES", -2, machine, "a fill must be in its RAM"),
    (machine_latencies, "ISSUE_TO_MICRO_OP_CYCLES", -2, machine, "a fill must be in its RAM"),
    (machine_latencies, "TOKEN_TO_ISSUE_CYCLES", -1, machine, "a result must be in its RAM"),
    (machine_latencies, "ISSUE_TO_MICRO_OP_CYCLES", -1, machine, "a result must be in its RAM"),
    (machine_latencies, "RAM_READ_CYCLES", +1, machine, "STORE must get rows of OUT as late"),
    (observe, "WRITE_CYCLES", +1, lambda: machine(observe=True), "writes of one cycle must be"),
    (observe, "BANK_CYCLES", +1, lambda: machine(observe=True), "writes of one cycle must be"),
]


@pytest.mark.parametrize(
    ("module", "name", "change", "build", "rule"),
    RULES,
    ids=[f"{m.__name__.rpartition('.')[2]}.{name}{change:+d}" for m, name, change, *_ in RULES],
)
def test_what_does_not_fit_is_not_built(
    module: ModuleType,
    name: str,
    change: int,
    build: Callable[[], Any],
    rule: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    block = build()
    monkeypatch.setattr(module, name, getattr(module, name) + change)
    with pytest.raises(ElaborationError, match=f"^{rule}") as refused:
        Fragment.get(block, Portable.PLAIN)
    assert name in str(refused.value)
    monkeypatch.undo()
    Fragment.get(block, Portable.PLAIN)


def test_a_value_is_not_wanted_before_it_is_there() -> None:
    with pytest.raises(ElaborationError, match="choice must not be delayed by -1 cycles"):
        delay(Module(), Signal(), -1, name="choice")


def test_a_rule_that_holds_says_nothing() -> None:
    require_at_elaboration(True, "never seen")


@pytest.fixture(autouse=True)
def own_designs() -> Iterator[None]:
    """Other tests get none of the designs that are made with changed values."""
    yield
    forget_shared_designs()


def set_value(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, value: int) -> None:
    """Make designs with another value from now on."""
    monkeypatch.setattr(module, name, value)
    forget_shared_designs()


def unchecked(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, value: int) -> None:
    """Build with another value, whatever the rules say."""
    set_value(monkeypatch, module, name, value)
    monkeypatch.setattr(module, "require_at_elaboration", lambda holds, rule: None)


def alu_rate() -> None:
    """48 vectors at one per cycle: more than the ring holds."""
    variant = TINY.replace(alu_lanes=8, requantize_lanes=4)
    state = random_state(variant, np.random.default_rng(3))
    state.uops[Unit.ALU][:4] = test_alu.alu_uops(variant, [0, 1, 2, 3], [4, 5, 6, 7], [1] * 4)
    # To OUT, so that no result is read again.
    fields = {"destination": OutMemory.OUT, "operation": AluOp.MAX, "use_immediate": 1}
    instruction = Instruction.of(Opcode.ALU, uop_end=4, extent0=12, extent1=1, extent2=1, **fields)
    bench = test_alu.Bench(variant, state)
    bench.run([issue_word(variant, instruction, 0)])
    busy = [k for k, kind in enumerate(bench.activity) if kind is Activity.BUSY]
    assert (len(busy), busy[-1] - busy[0]) == (48, 47)


def store_rate() -> None:
    """64 rows of one word each pass in as many cycles."""
    dut = RowReader(variant=TINY)
    bench, got, cycles = Bench(dut), [], []
    job = {"memory": OutMemory.OUT, "row": 0, "beyond": 0, "blocks": 1, "rows": 8, "cols": 8}

    async def count(ctx: Any) -> None:
        now = 0
        while True:
            _, _, valid, ready = await ctx.tick().sample(dut.data.valid, dut.data.ready)
            now += 1
            if valid and ready:
                cycles.append(now)

    bench.foreground(source(dut.job, [job | {"index": 0}]))
    bench.background(sink(dut.data, got), count)
    bench.until(lambda: len(cycles) == 64)
    bench.run()
    assert cycles[-1] - cycles[0] == 63


class TokenPath(wiring.Component):
    """LOAD's last register, tokens, GEMM's gate and its sequencer."""

    def __init__(self) -> None:
        self.buffer = FillBuffer(variant=TINY)
        self.file = TokenFile(variant=TINY)
        self.gate = IssueGate(variant=TINY, opcode=Opcode.GEMM)
        self.sequencer = Sequencer(variant=TINY, opcode=Opcode.GEMM, controls=())
        super().__init__({})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        for name in ("buffer", "file", "gate", "sequencer"):
            m.submodules[name] = getattr(self, name)
        wiring.connect(m, self.buffer.retire, self.file.retire[0])
        wiring.connect(m, self.gate.issue, self.sequencer.issue)
        m.d.comb += [
            self.buffer.fill.ready.eq(1),
            self.sequencer.fill.valid.eq(self.buffer.fill.valid),
            self.sequencer.fill.p.eq(self.buffer.fill.p),
            self.gate.available.eq(self.file.available[1]),
            self.gate.plenty.eq(self.file.plenty[1]),
            self.gate.coming.eq(self.file.coming[1]),
            self.file.take[1].eq(self.gate.take),
            self.sequencer.steps.ready.eq(1),
        ]
        return m


def soonest_read() -> None:
    """GEMM waits for a token of LOAD, whose last fill is the micro-op that it reads first."""
    dut = TokenPath()
    gemm_instruction = Instruction.of(
        Opcode.GEMM, pop=1 << Unit.LOAD, uop_end=1, extent0=1, extent1=1, extent2=1
    )
    steps = []

    async def drive(ctx: Any) -> None:
        word = int.from_bytes(encode(TINY, gemm_instruction), "little")
        ctx.set(dut.gate.queue.p.instruction, word)
        ctx.set(dut.gate.queue.valid, 1)
        await ctx.tick()
        ctx.set(dut.gate.queue.valid, 0)
        await ctx.tick().repeat(8)
        move = dut.buffer.move
        ctx.set(move.valid, 1)
        ctx.set(move.fill.memory, LoadMemory.UOP_GEMM)
        ctx.set(move.fill.data, 5)  # accumulator row 5
        ctx.set(dut.buffer.over, 1)
        ctx.set(dut.buffer.over_as.push, 1 << Unit.GEMM)
        await ctx.tick()
        ctx.set(move.valid, 0)
        ctx.set(dut.buffer.over, 0)
        for _ in range(20):
            if ctx.get(dut.sequencer.steps.valid):
                steps.append(ctx.get(dut.sequencer.steps.p.index.acc))
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(drive)
    simulator.run()
    assert steps == [5]


@pytest.mark.parametrize(("cycles", "works"), [(3, True), (4, False), (5, False)])
def test_the_soonest_read_after_a_token(
    cycles: int, works: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fill may take three cycles to its RAM; with four, the micro-op is read meanwhile."""
    monkeypatch.setattr(scratchpad, "WRITE_CYCLES", cycles)
    if works:
        soonest_read()
        return
    with pytest.raises(AssertionError):
        soonest_read()


TIGHT: dict[str, tuple[ModuleType, str, int, Callable[[], None]]] = {
    "skid": (
        block_fifo,
        "_SKID",
        4,
        lambda: test_block_fifo.test_an_item_passes_every_cycle(np.random.default_rng(0)),
    ),
    "ring": (alu, "_RING_SPARE", 2, alu_rate),
    "rows": (row_reader, "STORE_ROWS", 8, store_rate),
    "quiet": (
        supervisor,
        "QUIET_CYCLES",
        2,
        lambda: test_supervisor.test_quiet_means_quiet_for_some_cycles(supervisor.QUIET_CYCLES),
    ),
}
"""The least value that works, and a test that no smaller one passes."""


@pytest.mark.parametrize(("module", "name", "least", "works"), TIGHT.values(), ids=TIGHT)
def test_the_least_value_works_and_no_less(
    module: ModuleType,
    name: str,
    least: int,
    works: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_value(monkeypatch, module, name, least)
    works()
    unchecked(monkeypatch, module, name, least - 1)
    with pytest.raises(AssertionError):
        works()


def every_operation() -> None:
    test_alu.test_every_operation("tiny", 0.0, 0.0)


def any_order() -> None:
    test_gemm.test_any_order_of_rows("tiny", 0.0, 0.0, 12)


WRONG: dict[str, tuple[ModuleType, str, int, Callable[[], None]]] = {
    "sum early": (gemm, "ACC_READ_TO_SUM_CYCLES", -1, any_order),
    "sum late": (gemm, "ACC_READ_TO_SUM_CYCLES", +1, any_order),
    "write early": (forwarding, "ACC_READ_TO_WRITE_CYCLES", -1, any_order),
    "write late": (forwarding, "ACC_READ_TO_WRITE_CYCLES", +1, any_order),
    "operands early": (gemm, "GEMM_OPERAND_CYCLES", -1, any_order),
    "operands late": (gemm, "GEMM_OPERAND_CYCLES", +1, any_order),
    "answers early": (accumulators, "ACC_READ_CYCLES", -1, every_operation),
    "answers late": (accumulators, "ACC_READ_CYCLES", +1, every_operation),
    "rows early": (alu, "ALU_OPERAND_CYCLES", -1, every_operation),
    "parameters early": (alu, "_PAR_LATE", -1, every_operation),
    "parameters late": (alu, "_PAR_LATE", +1, every_operation),
}
"""Other values, and a test of the block's function."""


@pytest.mark.slow
@pytest.mark.parametrize(("module", "name", "change", "works"), WRONG.values(), ids=WRONG)
def test_other_values_compute_something_else(
    module: ModuleType,
    name: str,
    change: int,
    works: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unchecked(monkeypatch, module, name, getattr(module, name) + change)
    with pytest.raises(AssertionError):
        works()
