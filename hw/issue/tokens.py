"""Dependency tokens: a counter for every ordered pair of units.

A retiring instruction gives one token to every unit named in its `push` field. A unit's gate
(`gate`) holds the next instruction until one token from every unit named in its `pop` field is
available, and takes them all in the cycle in which the unit accepts the instruction.
"""

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.contracts import before, checks_contracts, contract
from daedal.hw.family import Platform
from daedal.hw.interfaces import error_signature
from daedal.hw.issue.token_count import TokenCount
from daedal.hw.layouts import INDEX_BITS, retire_layout
from daedal.isa.registers import ErrorCode
from daedal.isa.table import Unit
from daedal.isa.variant import Variant

__all__ = ["CLASS_BITS", "QUEUED_UNITS", "TokenFile", "retire_signature"]

QUEUED_UNITS = (Unit.LOAD, Unit.GEMM, Unit.ALU, Unit.STORE)
"""The units that have a queue, tokens and marks: the first of `Unit`, so that arrays of ports are
indexed by the unit."""

CLASS_BITS = 3
"""Width of an `isa.registers.CycleClass`."""


def retire_signature() -> wiring.Signature:
    """A pulse: an instruction is done; seen from the unit."""
    return wiring.Signature({"valid": Out(1), "payload": Out(retire_layout())})


class TokenFile(wiring.Component):
    """The twelve counters.

    A token can be taken from the cycle after it was given. Giving and taking a token of the same
    pair in one cycle leaves the count unchanged, so a full counter overflows only if no token is
    taken in that cycle.

    Members
    -------
    retire[u] : what unit u gives.
    available[u], plenty[u] : bit x is set while at least one token, at least two tokens, from unit
    x wait for unit u. Registered outputs.
    coming[u] : bit x is set while unit x gives unit u a token.
    take[u] : one bit per unit x, takes a token; only where `available[u]` is set.
    left : any counter is not zero.
    error : a counter would have exceeded its largest value two cycles earlier; `unit` and `index`
    name the giver.
    """

    def __init__(self, *, variant: Variant) -> None:
        self._bits = variant.units.token_bits
        units = len(QUEUED_UNITS)
        super().__init__(
            {
                "retire": In(retire_signature()).array(units),
                "available": Out(units).array(units),
                "plenty": Out(units).array(units),
                "coming": Out(units).array(units),
                "take": In(units).array(units),
                "left": Out(1),
                "error": Out(error_signature()),
                "error_unit": Out(3),
            }
        )

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        m.d.comb += [
            self.left.eq(Cat(self.available).any()),
            self.error.code.eq(ErrorCode.TOKEN_OVERFLOW),
        ]
        m.d.sync += self.error.valid.eq(0)
        counts: list[TokenCount] = []
        for giver in QUEUED_UNITS:
            overflow = Signal(3, name=f"overflow{giver:d}")
            index = Signal(INDEX_BITS, name=f"index{giver:d}", reset_less=True)
            takers = [unit for unit in QUEUED_UNITS if unit is not giver]
            m.d.sync += [
                overflow.eq(Cat(self._counter(m, giver, taker, counts) for taker in takers)),
                index.eq(self.retire[giver].payload.index),
            ]
            with m.If(overflow.any()):
                m.d.sync += [
                    self.error.valid.eq(1),
                    self.error.index.eq(index),
                    self.error_unit.eq(giver),
                ]
        if checks_contracts(platform):
            wraps = Cat(before(m, count.full & ~count.take) & ~count.full for count in counts)
            noticed = ~before(m, wraps.any()) | self.error.valid
            contract(m, platform, noticed, "a counter that overflows must be reported")
        return m

    def _counter(self, m: Module, giver: Unit, taker: Unit, counts: list[TokenCount]) -> Value:
        """Count the tokens of a pair; return whether the counter overflows."""
        count = TokenCount(most=(1 << self._bits) - 1)
        counts.append(count)
        m.submodules[f"count_{giver:d}_{taker:d}"] = count
        retire = self.retire[giver]
        m.d.comb += [
            count.give.eq(retire.valid & retire.payload.push[taker]),
            count.take.eq(self.take[taker][giver]),
            self.available[taker][giver].eq(count.some),
            self.plenty[taker][giver].eq(count.many),
            self.coming[taker][giver].eq(count.give),
        ]
        return count.give & ~count.take & count.full
