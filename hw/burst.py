"""Requests of any length and place -> AXI4 INCR bursts.

Input: a stream of `read_request`s (word address, beats). Output: a stream of bursts of at most 32
beats that never cross 4 KiB.
"""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.axi import MAX_BURST_BEATS, PAGE_BYTES
from daedal.hw.interfaces import read_request
from daedal.isa.variant import Variant

__all__ = ["BurstSplitter", "burst_layout"]


def burst_layout(variant: Variant) -> data.StructLayout:
    """A burst: word address, beats (1 to 32), and whether it ends its request."""
    request = read_request(variant).members["payload"].shape
    return data.StructLayout(
        {
            "address": request["address"].shape,
            "beats": MAX_BURST_BEATS.bit_length(),
            "last": 1,
        }
    )


class BurstSplitter(wiring.Component):
    """Split requests into bursts, one per cycle, without a gap between requests.

    A burst is as long as it can be: up to 32 beats, the rest of the request, or the rest of the
    4 KiB page. A request of 0 beats breaks the contract of `read_request` and is never given.

    Parameters
    ----------
    variant
        Gives the bus width (beats of a page) and the address width.

    Members
    -------
    i : ``In(read_request(variant))``
    o : ``Out(stream.Signature(burst_layout(variant)))``, straight from registers.
    """

    def __init__(self, *, variant: Variant) -> None:
        self._page_bits = (PAGE_BYTES // variant.bus_bytes - 1).bit_length()
        super().__init__(
            {"i": In(read_request(variant)), "o": Out(stream.Signature(burst_layout(variant)))}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        low_bits = MAX_BURST_BEATS.bit_length() - 1

        # The rest of the request at hand.
        active = Signal()
        address = Signal.like(self.i.payload.address, reset_less=True)
        beats = Signal.like(self.i.payload.beats, reset_less=True)

        # Only in the last 32 words of a page is its end nearer than 32 beats.
        near_end = address[low_bits : self._page_bits].all()
        limit = Signal(range(MAX_BURST_BEATS + 1))
        m.d.comb += limit.eq(Mux(near_end, MAX_BURST_BEATS - address[:low_bits], MAX_BURST_BEATS))
        last = beats <= limit
        length = Mux(last, beats[: len(limit)], limit)

        advance = ~self.o.valid | self.o.ready
        m.d.comb += self.i.ready.eq(~active | (advance & last))
        with m.If(advance):
            m.d.sync += [
                self.o.valid.eq(active),
                self.o.payload.address.eq(address),
                self.o.payload.beats.eq(length),
                self.o.payload.last.eq(last),
                address.eq(address + length),
                beats.eq(beats - length),
            ]
        with m.If(self.i.ready):
            m.d.sync += [
                active.eq(self.i.valid),
                address.eq(self.i.payload.address),
                beats.eq(self.i.payload.beats),
            ]
        return m
