"""A skid buffer: no combinational path between the streams on its two sides.

Input: a stream. Output: the same stream, a cycle later.
"""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.contracts import contract
from daedal.hw.family import Platform

__all__ = ["SkidBuffer"]


class SkidBuffer(wiring.Component):
    """Hold up to two words: one at the output, and one that arrived while the output stalled.

    Valid, payload and ready are registers on both sides. Latency one cycle; throughput one word per
    cycle.

    Parameters
    ----------
    shape
        Shape of the payload.

    Members
    -------
    i : ``In(stream.Signature(shape))``
    o : ``Out(stream.Signature(shape))``
    """

    def __init__(self, shape: Any) -> None:
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        given, shown = Value.cast(self.i.payload), Value.cast(self.o.payload)
        spare, word = Signal(len(given), reset_less=True), Signal(len(given), reset_less=True)
        # `room` is the inverse of `spared`: `spared` drives the payload's wide mux, `room` drives
        # `i.ready`.
        spared, room = Signal(), Signal(init=1)
        m.d.comb += [shown.eq(word), self.i.ready.eq(room)]
        with m.If(~spared):
            m.d.sync += spare.eq(given)
        with m.If(~self.o.valid | self.o.ready):
            m.d.sync += [
                self.o.valid.eq(spared | self.i.valid),
                word.eq(Mux(spared, spare, given)),
                spared.eq(0),
                room.eq(1),
            ]
        with m.Elif(self.i.valid):
            m.d.sync += [spared.eq(1), room.eq(0)]
        contract(m, platform, room != spared, "there must be room where nothing is spared")
        contract(m, platform, ~spared | self.o.valid, "a word must be spared behind another one")
        return m
