"""Dependency tokens: a counter for every ordered pair of units, and the gate before each unit.

A unit's gate holds the next instruction until one token from every unit named in its `pop` field
is there, takes them all in the cycle in which the unit accepts the instruction, and names what the
unit waits for. A retiring instruction gives one token to every unit named in its `push` field.
"""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.interfaces import Activity, error_signature
from daedal.hw.layouts import INDEX_BITS, entry_layout, issue_layout, retire_layout
from daedal.isa.registers import CycleClass, ErrorCode
from daedal.isa.table import INSTRUCTIONS, Opcode, Unit
from daedal.isa.variant import Variant

__all__ = ["CLASS_BITS", "QUEUED_UNITS", "IssueGate", "TokenFile", "retire_signature"]

QUEUED_UNITS = (Unit.LOAD, Unit.GEMM, Unit.ALU, Unit.STORE)
"""The units that have a queue, tokens and marks."""

CLASS_BITS = 3
"""Width of an `isa.registers.CycleClass`."""


def retire_signature() -> wiring.Signature:
    """A pulse: an instruction is done; seen from the unit."""
    return wiring.Signature({"valid": Out(1), "payload": Out(retire_layout())})


class TokenFile(wiring.Component):
    """The twelve counters.

    A token is usable in the cycle after it was given. Giving and taking a token of the same pair
    in one cycle leaves the count as it is, so a full counter overflows only when nobody takes.

    Members
    -------
    retire{u} : what unit u gives.
    available{u} : bit x is set while at least one token from unit x waits for unit u.
    take{u} : one bit per unit x, takes a token; only where `available{u}` is set.
    left : any counter is not zero.
    error : a counter would exceed its largest value; `unit` and `index` name who gave.
    """

    def __init__(self, *, variant: Variant) -> None:
        self._bits = variant.units.token_bits
        members = {"left": Out(1), "error": Out(error_signature()), "error_unit": Out(3)}
        for unit in QUEUED_UNITS:
            members[f"retire{unit:d}"] = In(retire_signature())
            members[f"available{unit:d}"] = Out(4)
            members[f"take{unit:d}"] = In(4)
        super().__init__(members)

    def elaborate(self, platform) -> Module:
        m = Module()
        waiting = {unit: Signal(4, name=f"waiting{unit:d}") for unit in QUEUED_UNITS}
        m.d.comb += self.left.eq(Cat(*waiting.values()).any())
        m.d.comb += self.error.code.eq(ErrorCode.TOKEN_OVERFLOW)
        for giver in QUEUED_UNITS:
            retire = getattr(self, f"retire{giver:d}")
            for taker in QUEUED_UNITS:
                if giver is not taker:
                    self._counter(m, retire, giver, taker, waiting[taker])
        for unit in QUEUED_UNITS:
            m.d.comb += getattr(self, f"available{unit:d}").eq(waiting[unit])
        return m

    def _counter(self, m: Module, retire, giver: Unit, taker: Unit, waiting: Signal) -> None:
        count = Signal(self._bits, name=f"count_{giver:d}_{taker:d}")
        following = Signal(self._bits, name=f"following_{giver:d}_{taker:d}")
        give = Signal(name=f"give_{giver:d}_{taker:d}")
        take = Signal(name=f"take_{giver:d}_{taker:d}")
        m.d.comb += [
            give.eq(retire.valid & retire.payload.push[taker]),
            take.eq(getattr(self, f"take{taker:d}")[giver]),
            following.eq(count + give - take),
        ]
        # The flag is kept beside the counter, so that gates wait for a register, not for a sum.
        m.d.sync += [count.eq(following), waiting[giver].eq(following.any())]
        with m.If(give & ~take & count.all()):
            m.d.comb += [
                self.error.valid.eq(1),
                self.error.index.eq(retire.payload.index),
                self.error_unit.eq(giver),
            ]


class IssueGate(wiring.Component):
    """Hands a unit its next instruction once the tokens it pops are there.

    Nothing is added to the latency: an instruction passes in the first cycle in which its tokens
    are available and the unit is ready. An instruction whose `pop` or `push` names its own unit is
    reported and never issued.

    Members
    -------
    queue : from the unit's queue. issue : to the unit.
    available, take : the unit's side of `TokenFile`.
    mark_credit : room for one more mark of this unit. mark_taken : pulse, a mark's room is used.
    marks_enabled : instructions with `mark` need room; otherwise the bit is ignored.
    activity : the unit's. cycle_class : the `CycleClass` of this cycle.
    waiting : the next instruction lacks a token. index : the next instruction's if there is one,
    else the last issued one's.
    """

    def __init__(self, *, variant: Variant, opcode: Opcode) -> None:
        self._unit = INSTRUCTIONS[opcode].unit
        super().__init__(
            {
                "queue": In(stream.Signature(entry_layout(variant))),
                "issue": Out(stream.Signature(issue_layout(variant, opcode))),
                "available": In(4),
                "take": Out(4),
                "mark_credit": In(1),
                "mark_taken": Out(1),
                "marks_enabled": In(1),
                "activity": In(Activity),
                "cycle_class": Out(CLASS_BITS),
                "waiting": Out(1),
                "index": Out(INDEX_BITS),
                "error": Out(error_signature()),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        instruction = self.issue.p.instruction
        lacking = Signal(4)
        illegal = Signal()
        marked = Signal()
        passes = Signal()
        last = Signal(INDEX_BITS, reset_less=True)
        m.d.comb += [
            instruction.eq(self.queue.p.instruction),
            self.issue.p.index.eq(self.queue.p.index),
            lacking.eq(instruction.pop & ~self.available),
            illegal.eq((instruction.pop | instruction.push)[self._unit]),
            marked.eq(instruction.mark & self.marks_enabled),
            self.issue.valid.eq(
                self.queue.valid & ~lacking.any() & ~illegal & (~marked | self.mark_credit)
            ),
            self.queue.ready.eq(self.issue.valid & self.issue.ready),
            passes.eq(self.queue.ready),
            self.take.eq(Mux(passes, instruction.pop, 0)),
            self.mark_taken.eq(passes & marked),
            self.waiting.eq(self.queue.valid & lacking.any() & ~illegal),
            self.index.eq(Mux(self.queue.valid, self.queue.p.index, last)),
            self.error.valid.eq(self.queue.valid & illegal),
            self.error.code.eq(ErrorCode.ILLEGAL_INSTRUCTION),
            self.error.index.eq(self.queue.p.index),
        ]
        with m.If(passes):
            m.d.sync += last.eq(self.queue.p.index)
        self._classify(m, lacking, passes)
        return m

    def _classify(self, m: Module, lacking: Signal, passes: Signal) -> None:
        waits = Array([CycleClass[f"WAIT_{unit.name}"] for unit in QUEUED_UNITS])
        lowest = Signal(2)
        for unit in reversed(QUEUED_UNITS):
            with m.If(lacking[unit]):
                m.d.comb += lowest.eq(unit)
        with m.If((self.activity == Activity.BUSY) | passes):
            m.d.comb += self.cycle_class.eq(CycleClass.BUSY)
        with m.Elif(self.activity == Activity.STALL):
            m.d.comb += self.cycle_class.eq(CycleClass.STALL)
        with m.Elif(self.waiting):
            m.d.comb += self.cycle_class.eq(waits[lowest])
        with m.Elif(self.queue.valid | (self.activity == Activity.DRAIN)):
            m.d.comb += self.cycle_class.eq(CycleClass.STALL)
        with m.Else():
            m.d.comb += self.cycle_class.eq(CycleClass.IDLE)
