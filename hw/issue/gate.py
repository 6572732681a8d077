"""The gate of a unit: its instruction queue, and the instruction that waits for its tokens.

Input: instructions from FETCH, and which tokens are available. Output: instructions to the unit.
"""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.contracts import contract
from daedal.hw.family import Platform
from daedal.hw.interfaces import Activity, error_signature
from daedal.hw.issue.tokens import CLASS_BITS, QUEUED_UNITS
from daedal.hw.layouts import INDEX_BITS, entry_layout, issue_layout
from daedal.hw.parts.small_fifo import SmallFifo
from daedal.hw.pipeline import register
from daedal.isa.registers import CycleClass, ErrorCode
from daedal.isa.table import INSTRUCTIONS, Opcode
from daedal.isa.variant import Variant

__all__ = ["TOKEN_TO_ISSUE_CYCLES", "IssueGate"]

TOKEN_TO_ISSUE_CYCLES = 1
"""Minimum latency from a token being given to the issue of the instruction that waits for it."""


class IssueGate(wiring.Component):
    """Issues a unit's next instruction once the tokens it pops are available.

    Up to ``units.queue_depth`` instructions wait in a queue, and one more in a register, which an
    instruction reaches two cycles after FETCH dispatched it. It is issued in the first cycle in
    which its tokens are available and the unit is ready. Availability is computed one cycle ahead,
    so that `issue.valid` is a register: tokens being given in that cycle count, tokens that the
    previous instruction takes do not.

    An instruction whose `pop` or `push` names its own unit is reported and never issued.

    Parameters
    ----------
    variant
        Gives the depth of the queue and the layout of instructions.
    opcode
        Opcode of the unit's instructions.

    Members
    -------
    queue : from FETCH. issue : to the unit.
    available, plenty, coming, take : the unit's side of `TokenFile`.
    mark_available, mark_plenty, mark_coming : this unit's credits for marks, with the meaning that
    they have for tokens.
    mark_taken : pulse, a credit for a mark is taken.
    marks_enabled : an instruction with `mark` needs a credit; sampled as it leaves the queue.
    Otherwise the bit is ignored.
    activity : the unit's. cycle_class : the `CycleClass` of the previous cycle.
    waiting : the next instruction lacks a token. vacant : there is no instruction.
    index : the next instruction's if it has left the queue, else the last issued one's.
    """

    def __init__(self, *, variant: Variant, opcode: Opcode) -> None:
        self._unit = INSTRUCTIONS[opcode].unit
        self._depth = variant.units.queue_depth
        self._entry = entry_layout(variant)
        self._issue = issue_layout(variant, opcode)
        super().__init__(
            {
                "queue": In(stream.Signature(self._entry)),
                "issue": Out(stream.Signature(self._issue)),
                "available": In(4),
                "plenty": In(4),
                "coming": In(4),
                "take": Out(4),
                "mark_available": In(1),
                "mark_plenty": In(1),
                "mark_coming": In(1),
                "mark_taken": Out(1),
                "marks_enabled": In(1),
                "activity": In(Activity),
                "cycle_class": Out(CLASS_BITS),
                "waiting": Out(1),
                "vacant": Out(1),
                "index": Out(INDEX_BITS),
                "error": Out(error_signature()),
            }
        )

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        m.submodules.memory = memory = SmallFifo(width=self._entry.size, depth=self._depth)
        held, illegal, passes = Signal(), Signal(), Signal()
        wants = Signal(5)  # tokens and the credit for a mark; 0 while nothing is held
        lacking = Signal(5)  # those not available
        last = Signal(INDEX_BITS, reset_less=True)
        m.d.comb += [
            memory.w_data.eq(self.queue.p),
            memory.w_en.eq(self.queue.valid),
            memory.r_en.eq(~held | passes),
            self.queue.ready.eq(memory.w_rdy),
            passes.eq(self.issue.valid & self.issue.ready),
            Cat(self.take, self.mark_taken).eq(Mux(passes, wants, 0)),
            self.waiting.eq(lacking[:4].any() & ~illegal),
            self.vacant.eq(~held & ~memory.r_rdy),
            self.index.eq(Mux(held, self.issue.p.index, last)),
            self.error.valid.eq(illegal),
            self.error.code.eq(ErrorCode.ILLEGAL_INSTRUCTION),
            self.error.index.eq(self.issue.p.index),
        ]
        with m.If(passes):
            m.d.sync += last.eq(self.issue.p.index)
        self._look_ahead(m, memory, held, illegal, wants, lacking)
        self._classify(m, held, lacking, passes)
        there = Cat(self.available, self.mark_available)
        for holds, rule in (
            ((Cat(self.take, self.mark_taken) & ~there) == 0, "what is taken must be there"),
            (~self.issue.valid | (held & ~illegal), "only a legal instruction must be issued"),
        ):
            contract(m, platform, holds, rule)
        return m

    def _look_ahead(
        self,
        m: Module,
        memory: SmallFifo,
        held: Signal,
        illegal: Signal,
        wants: Signal,
        lacking: Signal,
    ) -> None:
        """Which tokens the next cycle's instruction needs, and whether they are available then."""
        some = Cat(self.available, self.mark_available)
        many = Cat(self.plenty, self.mark_plenty)
        coming = Cat(self.coming, self.mark_coming)
        left = (many & wants) | (some & ~wants)  # after those the instruction issued now takes
        following = data.View(self._issue, memory.r_data).instruction
        needs = Cat(following.pop, following.mark & self.marks_enabled)
        refused = (following.pop | following.push)[self._unit]
        misses = needs & ~(left | coming)
        still = wants & ~(some | coming)
        valid = Mux(memory.r_en, memory.r_rdy & ~refused & (misses == 0), ~illegal & (still == 0))
        # The wide instruction register has its own copy of `issue.valid` as an enable.
        word, closed = Signal(self._entry.size, reset_less=True), Signal(init=1)
        m.d.comb += data.View(self._entry, self.issue.p.as_value()).eq(word)
        m.d.sync += [self.issue.valid.eq(valid), closed.eq(~valid)]
        with m.If(~held | (~closed & self.issue.ready)):
            m.d.sync += word.eq(memory.r_data)
        with m.If(memory.r_en):
            m.d.sync += [
                held.eq(memory.r_rdy),
                illegal.eq(memory.r_rdy & refused),
                wants.eq(Mux(memory.r_rdy, needs, 0)),
                lacking.eq(Mux(memory.r_rdy, misses, 0)),
            ]
        with m.Else():
            m.d.sync += lacking.eq(still)

    def _classify(self, m: Module, held: Signal, lacking: Signal, passes: Signal) -> None:
        # A unit's activity is a long path: it is registered first.
        activity = register(m, self.activity, name="activity_then")
        held, passes = (
            register(m, bit, name=f"{bit.name}_then", reset_less=False) for bit in (held, passes)
        )
        lacks = register(m, Mux(self.waiting, lacking[:4], 0), name="lacks_then", reset_less=False)
        with m.If((activity == Activity.BUSY) | passes):
            m.d.comb += self.cycle_class.eq(CycleClass.BUSY)
        with m.Elif(activity == Activity.STALL):
            m.d.comb += self.cycle_class.eq(CycleClass.STALL)
        for unit in QUEUED_UNITS:
            with m.Elif(lacks[unit]):
                m.d.comb += self.cycle_class.eq(CycleClass[f"WAIT_{unit.name}"])
        with m.Elif(held | (activity == Activity.DRAIN)):
            m.d.comb += self.cycle_class.eq(CycleClass.STALL)
        with m.Else():
            m.d.comb += self.cycle_class.eq(CycleClass.IDLE)
