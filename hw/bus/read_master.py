"""The read side of the AXI4 master: requests of FETCH and LOAD in, bursts out, words back."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from daedal.hw.bus.axi import ID_BITS, address_channel, read_channel
from daedal.hw.bus.burst import BurstSplitter
from daedal.hw.contracts import contract
from daedal.hw.family import Platform
from daedal.hw.interfaces import read_request, read_word
from daedal.hw.parts.block_fifo import BlockFifo
from daedal.hw.parts.tally import Tally
from daedal.hw.pipeline import register
from daedal.isa.latencies import MAX_BURST_BEATS, fifo_depth_words
from daedal.isa.variant import Variant

__all__ = ["ReadMaster"]


class ReadMaster(wiring.Component):
    """Serve `readers` streams of requests with AXI4 reads; reader `r` uses ID `r`.

    INCR bursts of at most 32 beats that never cross 4 KiB; at most ``bus.read_bursts`` outstanding
    in all; the lowest reader has priority. A burst is issued only when its reader's FIFO has 32
    free words not reserved by outstanding bursts, so RREADY is always 1. Every RRESP is passed on
    with its word; the reader decides what counts as an error.

    Latency: 3 cycles from a request to AR, 5 from R to the reader. Throughput: a burst per cycle
    on AR, a word per cycle per reader.

    Parameters
    ----------
    variant
        Bus widths and the number of outstanding bursts.
    readers
        How many; 1 or 2.

    Members
    -------
    request[r] : ``In(read_request(variant))``
    data[r] : ``Out(read_word(variant))``
    ar : ``Out(stream.Signature(address_channel(variant)))``
    r : ``In(stream.Signature(read_channel(variant)))``
    stop : ``In(1)``
        While 1, no further burst is issued; the words of outstanding ones go into the FIFOs.
    drained : ``Out(1)``
        No burst is outstanding or waits at AR. It is then safe to reset the master, which drops all
        requests and words.
    beat : ``Out(1)``
        A word was received.
    """

    def __init__(self, *, variant: Variant, readers: int = 2) -> None:
        if not 1 <= readers <= 1 << ID_BITS:
            raise ValueError(f"readers must be 1 to {1 << ID_BITS}, not {readers!r}")
        self._variant = variant
        self._readers = readers
        super().__init__(
            {
                "request": In(read_request(variant)).array(readers),
                "data": Out(read_word(variant)).array(readers),
                "ar": Out(stream.Signature(address_channel(variant))),
                "r": In(stream.Signature(read_channel(variant))),
                "stop": In(1),
                "drained": Out(1),
                "beat": Out(1),
            }
        )

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        variant = self._variant
        most = variant.bus.read_bursts

        # R is registered before the demux by ID; the FIFOs always have room for it.
        word = Signal.like(self.r.payload, reset_less=True)
        word_valid = Signal()
        m.d.comb += [self.r.ready.eq(1), self.beat.eq(word_valid)]
        m.d.sync += [word_valid.eq(self.r.valid), word.eq(self.r.payload)]
        closes = word_valid & word.last

        may_start, starts = Signal(), Signal()
        m.submodules.open = count = Tally(most=most)
        m.d.comb += [
            may_start.eq((~self.ar.valid | self.ar.ready) & ~count.full & ~self.stop),
            count.up.eq(starts),
            count.down.eq(closes),
            self.drained.eq(count.none & ~word_valid),
        ]
        with m.If(self.ar.ready):
            m.d.sync += self.ar.valid.eq(0)

        granted = 0
        for reader in range(self._readers):
            m.submodules[f"splitter{reader}"] = splitter = BurstSplitter(variant=variant)
            depth = fifo_depth_words(variant, reader)
            m.submodules[f"fifo{reader}"] = fifo = BlockFifo(
                shape=read_word(variant).members["payload"].shape, depth=depth
            )
            request, words = self.request[reader], self.data[reader]
            connect(m, flipped(request), splitter.i)
            connect(m, flipped(words), fifo.o)

            # Free words of the FIFO that are not reserved by outstanding bursts, less the 32 of the
            # next burst: a negative value means no room for it.
            spare = Signal(
                range(-MAX_BURST_BEATS, depth), init=depth - MAX_BURST_BEATS, name=f"spare{reader}"
            )
            wanted = splitter.o.valid & ~spare[-1]
            grant = Signal(name=f"grant{reader}")
            m.d.comb += [
                grant.eq(may_start & wanted & ~granted),
                splitter.o.ready.eq(grant),
            ]
            granted = granted | wanted
            burst = splitter.o.payload
            with m.If(grant):
                m.d.sync += [
                    self.ar.valid.eq(1),
                    self.ar.payload.id.eq(reader),
                    self.ar.payload.addr.eq(burst.address << variant.word_offset_bits),
                    self.ar.payload.len.eq(burst.beats - 1),
                ]
            # FIFO reads are registered and counted one cycle later: `ready` is a long path.
            left = register(m, words.valid & words.ready, name=f"left{reader}", reset_less=False)
            m.d.sync += spare.eq(spare + left - Mux(grant, burst.beats, 0))
            m.d.comb += [
                fifo.i.valid.eq(word_valid & (word.id == reader)),
                fifo.i.payload.data.eq(word.data),
                fifo.i.payload.response.eq(word.resp),
            ]
            for holds, rule in (
                (~fifo.i.valid | fifo.i.ready, "a word that comes must find room in its FIFO"),
                (spare <= depth - MAX_BURST_BEATS, "a FIFO must not gain room"),
            ):
                contract(m, platform, holds, rule)
        m.d.comb += starts.eq(may_start & granted)
        return m
