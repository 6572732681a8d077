"""The write side of the AXI4 master: requests and words of STORE and marks in, bursts out."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from daedal.hw.bus.axi import (
    ID_BITS,
    address_channel,
    response_channel,
    write_channel,
)
from daedal.hw.bus.burst import BurstSplitter
from daedal.hw.contracts import at_most_one, contract
from daedal.hw.family import Platform
from daedal.hw.interfaces import read_request, write_response
from daedal.hw.parts.skid import SkidBuffer
from daedal.hw.parts.small_fifo import SmallFifo
from daedal.hw.parts.tally import Tally
from daedal.isa.latencies import MAX_BURST_BEATS
from daedal.isa.variant import Variant

__all__ = ["WriteMaster"]


class WriteMaster(wiring.Component):
    """Serve `writers` streams of requests with AXI4 writes; writer `w` uses ID `w`.

    INCR bursts of at most 32 beats that never cross 4 KiB; at most ``bus.write_bursts`` outstanding
    in all; the lowest writer has priority. AW may be sent before its data is available. W follows
    in the order of AW, burst by burst, with every byte strobed. BREADY is always 1.

    Latency: 3 cycles from a request to AW, 1 from a word to W, 2 from B to the response.
    Throughput: a burst per cycle on AW, a word per cycle on W, without a gap between bursts.

    Parameters
    ----------
    variant
        Bus widths and the number of outstanding bursts.
    writers
        How many; 1 or 2.

    Members
    -------
    request[w] : ``In(read_request(variant))``
    data[w] : ``In(stream.Signature(variant.bus.data_bits))``
        The words of the requests, in order.
    response[w] : ``Out(write_response())``
        One pulse per request, in order: all its bursts are acknowledged.
    aw : ``Out(stream.Signature(address_channel(variant)))``
    w : ``Out(stream.Signature(write_channel(variant)))``
    b : ``In(stream.Signature(response_channel()))``
    stop : ``In(1)``
        While 1, no further burst is issued, and outstanding ones are completed with beats that
        strobe no byte.
    drained : ``Out(1)``
        No burst is outstanding or waits at AW. It is then safe to reset the master, which drops all
        requests.
    beat : ``Out(1)``
        A word was sent.
    """

    def __init__(self, *, variant: Variant, writers: int = 2) -> None:
        if not 1 <= writers <= 1 << ID_BITS:
            raise ValueError(f"writers must be 1 to {1 << ID_BITS}, not {writers!r}")
        self._variant = variant
        self._writers = writers
        super().__init__(
            {
                "request": In(read_request(variant)).array(writers),
                "data": In(stream.Signature(variant.bus.data_bits)).array(writers),
                "response": Out(write_response()).array(writers),
                "aw": Out(stream.Signature(address_channel(variant))),
                "w": Out(stream.Signature(write_channel(variant))),
                "b": In(stream.Signature(response_channel())),
                "stop": In(1),
                "drained": Out(1),
                "beat": Out(1),
            }
        )

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        variant = self._variant
        most = variant.bus.write_bursts

        # Bursts whose AW was issued and whose words were not.
        order_layout = data.StructLayout({"writer": ID_BITS, "len": range(MAX_BURST_BEATS)})
        m.submodules.order = order = SmallFifo(width=order_layout.size, depth=most)
        entry = Signal(order_layout)
        m.d.comb += order.w_data.eq(entry)

        answer = Signal.like(self.b.payload, reset_less=True)
        answer_valid = Signal()
        m.d.comb += self.b.ready.eq(1)
        m.d.sync += [answer_valid.eq(self.b.valid), answer.eq(self.b.payload)]

        may_start = Signal()
        m.submodules.open = count = Tally(most=most)
        m.d.comb += [
            may_start.eq((~self.aw.valid | self.aw.ready) & ~count.full & ~self.stop),
            count.down.eq(answer_valid),
            self.drained.eq(count.none & ~answer_valid),
        ]
        with m.If(self.aw.ready):
            m.d.sync += self.aw.valid.eq(0)

        granted = 0
        for writer in range(self._writers):
            m.submodules[f"splitter{writer}"] = splitter = BurstSplitter(variant=variant)
            connect(m, flipped(self.request[writer]), splitter.i)
            grant = Signal(name=f"grant{writer}")
            m.d.comb += [
                grant.eq(may_start & splitter.o.valid & ~granted),
                splitter.o.ready.eq(grant),
            ]
            granted = granted | splitter.o.valid
            burst = splitter.o.payload
            with m.If(grant):
                m.d.comb += [
                    order.w_en.eq(1),
                    entry.writer.eq(writer),
                    entry.len.eq(burst.beats - 1),
                ]
                m.d.sync += [
                    self.aw.valid.eq(1),
                    self.aw.payload.id.eq(writer),
                    self.aw.payload.addr.eq(burst.address << variant.word_offset_bits),
                    self.aw.payload.len.eq(burst.beats - 1),
                ]
            self._respond(m, platform, writer, grant, burst.last, answer_valid, answer)
        m.d.comb += count.up.eq(may_start & granted)
        contract(m, platform, ~order.w_en | order.w_rdy, "an open burst must have a place")

        self._send_words(m, platform, order, order_layout)
        return m

    def _respond(
        self,
        m: Module,
        platform: Platform,
        writer: int,
        grant: Signal,
        last: Value,
        answer_valid: Signal,
        answer: data.View,
    ) -> None:
        """Turn the B of each burst into one response per request."""
        m.submodules[f"lasts{writer}"] = lasts = SmallFifo(
            width=1, depth=self._variant.bus.write_bursts
        )
        response = self.response[writer]
        mine = answer_valid & (answer.id == writer)
        worst = Signal.like(answer.resp, name=f"worst{writer}")
        so_far = Mux(answer.resp > worst, answer.resp, worst)
        m.d.comb += [
            lasts.w_en.eq(grant),
            lasts.w_data.eq(last),
            lasts.r_en.eq(mine),
        ]
        for holds, rule in (
            (~grant | lasts.w_rdy, "an open burst of a writer must have a place"),
            (~mine | lasts.r_rdy, "only an open burst must be answered"),
        ):
            contract(m, platform, holds, rule)
        m.d.sync += [response.valid.eq(mine & lasts.r_data), response.response.eq(so_far)]
        with m.If(mine):
            m.d.sync += worst.eq(Mux(lasts.r_data, 0, so_far))

    def _send_words(
        self, m: Module, platform: Platform, order: SmallFifo, layout: data.StructLayout
    ) -> None:
        """Move the words of the oldest burst to W."""
        # The current burst, taken from the queue while its predecessor's last word is sent. Its
        # writer is one-hot; the wide data mux has its own copy of the select bits.
        serves = Signal(self._writers)
        writer = Signal(ID_BITS)
        remaining, last = Signal(range(MAX_BURST_BEATS)), Signal()

        m.submodules.words = words = SkidBuffer(write_channel(self._variant))
        connect(m, words.o, flipped(self.w))
        contract(m, platform, at_most_one(serves), "the words of one writer must go at a time")
        free = words.i.ready
        there = (serves & Cat(source.valid for source in self.data)).any()
        active = serves.any()
        move = Signal()
        m.d.comb += [
            move.eq(free & (there | (active & self.stop))),
            self.beat.eq(self.w.valid & self.w.ready),
        ]
        for number, source in enumerate(self.data):
            m.d.comb += source.ready.eq(serves[number] & free & ~self.stop)
        m.d.comb += [
            words.i.valid.eq(move),
            words.i.payload.data.eq(Array(source.payload for source in self.data)[writer]),
            words.i.payload.strb.eq(Mux(self.stop, 0, ~0)),
            words.i.payload.last.eq(last),
        ]
        with m.If(move):
            m.d.sync += [remaining.eq(remaining - 1), last.eq(remaining == 1)]

        take = ~active | (move & last)
        head = layout(order.r_data)
        m.d.comb += order.r_en.eq(take)
        with m.If(take):
            m.d.sync += [
                serves.eq(Mux(order.r_rdy, 1 << head.writer, 0)),
                writer.eq(head.writer),
                remaining.eq(head.len),
                last.eq(head.len == 0),
            ]
