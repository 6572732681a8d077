"""LOAD's output register before the scratchpads, with a skid register.

The accumulators' `ready` is a long path. The skid register takes the fill that LOAD sends in the
same cycle, so LOAD sees the stall one cycle later, from a register.
"""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.contracts import contract
from daedal.hw.family import Platform
from daedal.hw.interfaces import fill_signature
from daedal.hw.layouts import retire_layout
from daedal.isa.variant import Variant

__all__ = ["FILL_TO_RETIRE_CYCLES", "FillBuffer", "fill_move_layout"]

FILL_TO_RETIRE_CYCLES = 1
"""Latency from an instruction's last fill to its retirement, which gives its tokens."""


def fill_move_layout(variant: Variant) -> data.StructLayout:
    """A fill, if there is one."""
    return data.StructLayout({"valid": 1, "fill": fill_signature(variant).members["payload"].shape})


class FillBuffer(wiring.Component):
    """A skid buffer for fills and ends of instructions, in order and without bubbles.

    Latency: one cycle.

    Parameters
    ----------
    variant
        The machine.

    Members
    -------
    ready : ``Out(1)``
        Register: a fill or an end may come in this cycle.
    move : ``In(fill_move_layout(variant))``
    over, over_as : ``In(1)``, ``In(retire_layout())``
        An instruction ends with this move. Not while `ending` is set.
    over_alone : ``In(1)``
        An instruction ends without a fill; implies `over`, but arrives earlier in the cycle.
    ending : ``Out(1)``
        Register: the move at the output ends an instruction.
    fill : ``Out(fill_signature(variant))``, registered outputs.
    retire : as in `interfaces.unit_signature`, one cycle after the instruction's last fill was
        accepted.
    active : ``Out(1)``
        A fill, an end or a retirement is in flight.
    """

    def __init__(self, *, variant: Variant) -> None:
        super().__init__(
            {
                "ready": Out(1, init=1),
                "move": In(fill_move_layout(variant)),
                "over": In(1),
                "over_as": In(retire_layout()),
                "over_alone": In(1),
                "ending": Out(1),
                "fill": Out(fill_signature(variant)),
                "retire": Out(wiring.Signature({"valid": Out(1), "payload": Out(retire_layout())})),
                "active": Out(1),
            }
        )

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        spare = Signal.like(self.move, reset_less=True)
        spare_over = Signal(reset_less=True)
        ending_as = Signal(retire_layout(), reset_less=True)
        # The inverse of `ready` in a register of its own: this one controls the buffer, `ready` the
        # logic before it.
        held = Signal()
        free, keeps = Signal(), Signal()
        m.d.comb += [
            free.eq(~self.fill.valid | self.fill.ready),
            keeps.eq(~free & (held | self.move.valid | self.over_alone)),
            self.active.eq(self.fill.valid | self.ending | held | self.retire.valid),
        ]
        m.d.sync += [
            held.eq(keeps),
            self.ready.eq(~keeps),
            self.retire.valid.eq(self.ending & free),
            self.retire.payload.eq(ending_as),
        ]
        with m.If(~held):
            m.d.sync += [spare.eq(self.move), spare_over.eq(self.over)]
        # The instruction that ends next; held from its end to its retirement.
        with m.If(~self.ending & ~held):
            m.d.sync += ending_as.eq(self.over_as)
        with m.If(free):
            m.d.sync += [
                self.fill.valid.eq(Mux(held, spare.valid, self.move.valid)),
                self.fill.payload.eq(Mux(held, spare.fill, self.move.fill)),
                self.ending.eq(Mux(held, spare_over, self.over)),
            ]
        for holds, rule in (
            (self.ready != held, "there must be room where nothing is held"),
            (~(self.move.valid | self.over) | self.ready, "a fill must come where there is room"),
            (~(self.over & self.ending), "no instruction must end while another one does"),
            (~self.over_alone | self.over, "an end without a fill must be an end"),
        ):
            contract(m, platform, holds, rule)
        return m
