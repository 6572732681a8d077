"""Chooses the burst that goes next: the host's, a read or a write.

Input: bursts that wait. Output: one stream of bursts.
"""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.boards.sdram.layouts import request_layout
from daedal.hw.family import Platform
from daedal.isa.sdram_chip import SdramChip
from daedal.isa.sdram_memory import TURN_BURSTS

__all__ = ["BurstArbiter"]


class BurstArbiter(wiring.Component):
    """The host goes first. Then the direction that has the turn goes, or the other if it has none.

    A direction keeps the turn that it took until it has had `TURN_BURSTS` in a row; from then on,
    the other has it. Reads have the first turn. No register lies between the inputs and `burst`.

    Members
    -------
    host, read, write : ``In(stream.Signature(request_layout(chip)))``
    burst : ``Out(stream.Signature(request_layout(chip)))``
    """

    def __init__(self, *, chip: SdramChip) -> None:
        request = stream.Signature(request_layout(chip))
        super().__init__(
            {"host": In(request), "read": In(request), "write": In(request), "burst": Out(request)}
        )

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        in_a_row = Signal(range(TURN_BURSTS + 1))
        writing, is_full = Signal(), Signal()  # the direction of the last burst; it has had enough
        picks_write = Signal()
        m.d.comb += [
            picks_write.eq(self.write.valid & ((writing ^ is_full) | ~self.read.valid)),
            self.burst.valid.eq(self.host.valid | self.read.valid | self.write.valid),
            self.host.ready.eq(self.burst.ready),
            self.read.ready.eq(self.burst.ready & ~self.host.valid & ~picks_write),
            self.write.ready.eq(self.burst.ready & ~self.host.valid & picks_write),
        ]
        with m.If(self.host.valid):
            m.d.comb += self.burst.payload.eq(self.host.payload)
        with m.Elif(picks_write):
            m.d.comb += self.burst.payload.eq(self.write.payload)
        with m.Else():
            m.d.comb += self.burst.payload.eq(self.read.payload)
        with m.If(self.burst.ready & ~self.host.valid & (self.read.valid | self.write.valid)):
            m.d.sync += writing.eq(picks_write)
            with m.If(picks_write != writing):
                m.d.sync += [in_a_row.eq(1), is_full.eq(TURN_BURSTS == 1)]
            with m.Elif(~is_full):
                m.d.sync += [
                    in_a_row.eq(in_a_row + 1),
                    is_full.eq(in_a_row == TURN_BURSTS - 1),
                ]
        return m
