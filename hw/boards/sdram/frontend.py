"""The AXI4 side of the SDRAM controller: queues, the words of writes, the words of reads, answers.

Input: the machine's channels. Output: bursts that may be served, and what the served ones left.
"""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from daedal.hw.boards.sdram.layouts import request_layout
from daedal.hw.bus.axi import address_channel, read_channel, response_channel, write_channel
from daedal.hw.contracts import contract
from daedal.hw.family import Platform
from daedal.hw.parts.block_fifo import BlockFifo
from daedal.hw.parts.queue import Queue
from daedal.hw.parts.skid import SkidBuffer
from daedal.hw.parts.tally import Tally
from daedal.isa.sdram_chip import SdramChip
from daedal.isa.sdram_memory import BURSTS, WORDS
from daedal.isa.variant import Variant

__all__ = ["AxiFrontend"]

_LONGEST = 256
"""Words of the longest burst of AXI4."""

_OKAY, _DECERR = 0b00, 0b11


class AxiFrontend(wiring.Component):
    """Everything between the machine and the service of bursts; a reset forgets it all.

    A write is offered when its last word has come, a read while there are places for the longest
    burst that are not promised. So once a burst is served, no word of it waits.

    Members
    -------
    ar, aw, r, w, b : the machine's channels, as of `MemorySlave`.
    read, write : ``Out(stream.Signature(request_layout(chip)))``; bursts that may be served.
    write_word : ``Out(stream.Signature(...))``; words and strobes of the served bursts.
    read_done : ``In(stream.Signature(read_channel(variant)))``; always ready: words that were read.
    write_done : ``In(stream.Signature(response_channel()))``; always ready: answers to writes.
    """

    def __init__(self, *, chip: SdramChip, variant: Variant) -> None:
        self._chip = chip
        self._variant = variant
        address = stream.Signature(address_channel(variant))
        request = stream.Signature(request_layout(chip))
        super().__init__(
            {
                "ar": In(address),
                "r": Out(stream.Signature(read_channel(variant))),
                "aw": In(address),
                "w": In(stream.Signature(write_channel(variant))),
                "b": Out(stream.Signature(response_channel())),
                "read": Out(request),
                "write": Out(request),
                "write_word": Out(stream.Signature(_strobed(variant))),
                "read_done": In(stream.Signature(read_channel(variant), always_ready=True)),
                "write_done": In(stream.Signature(response_channel(), always_ready=True)),
            }
        )

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        self._reads(m, platform, self._requests(m, "ar", write=0))
        self._writes(m, platform, self._requests(m, "aw", write=1))
        return m

    def _requests(self, m: Module, name: str, *, write: int) -> Any:
        """The bursts of an address channel: a register at its pins, then a queue."""
        channel = getattr(self, name)
        m.submodules[f"{name}_skid"] = skid = SkidBuffer(channel.payload.shape())
        m.submodules[f"{name}_queue"] = queue = Queue(request_layout(self._chip), depth=BURSTS)
        connect(m, flipped(channel), skid.i)
        given, entry = skid.o.payload, queue.i.payload
        word = given.addr[self._variant.word_offset_bits :]
        place = data.View(_place(entry), word[: _place(entry).size])
        m.d.comb += [
            queue.i.valid.eq(skid.o.valid),
            skid.o.ready.eq(queue.i.ready),
            entry.write.eq(write),
            entry.host.eq(0),
            entry.beyond.eq(word[_place(entry).size :].any()),
            entry.id.eq(given.id),
            entry.len.eq(given.len),
            *(entry[field].eq(place[field]) for field in ("column", "bank", "row")),
        ]
        return queue.o

    def _reads(self, m: Module, platform: Platform, bursts: Any) -> None:
        """Reads take places for their words when they are served."""
        m.submodules.read_words = words = BlockFifo(shape=self.r.payload.shape(), depth=WORDS)
        m.submodules.r_skid = skid = SkidBuffer(self.r.payload.shape())
        connect(m, words.o, skid.i)
        connect(m, skid.o, flipped(self.r))
        # Places not promised, less those of the longest burst: a negative number is too few.
        spare = Signal(range(-_LONGEST, WORDS), init=WORDS - _LONGEST)
        left = Signal()
        m.d.comb += [
            words.i.valid.eq(self.read_done.valid),
            words.i.payload.eq(self.read_done.payload),
            self.read.valid.eq(bursts.valid & ~spare[-1]),
            self.read.payload.eq(bursts.payload),
            bursts.ready.eq(self.read.ready & ~spare[-1]),
        ]
        taken = self.read.valid & self.read.ready
        m.d.sync += [
            left.eq(words.o.valid & words.o.ready),
            spare.eq(spare + left - Mux(taken, bursts.payload.len + 1, 0)),
        ]
        kept = ~words.i.valid | words.i.ready
        contract(m, platform, kept, "a word that was read must have a place")

    def _writes(self, m: Module, platform: Platform, bursts: Any) -> None:
        """Writes wait for their last word; as many may be open as answers have places."""
        m.submodules.w_skid = skid = SkidBuffer(self.w.payload.shape())
        m.submodules.write_words = words = BlockFifo(shape=_strobed(self._variant), depth=WORDS)
        m.submodules.whole = whole = Tally(most=2 * WORDS - 1)
        m.submodules.open = is_open = Tally(most=BURSTS)
        m.submodules.answers = answers = Queue(self.b.payload.shape(), depth=BURSTS, trusts=True)
        connect(m, flipped(self.w), skid.i)
        connect(m, words.o, flipped(self.write_word))
        connect(m, answers.o, flipped(self.b))
        allowed = ~whole.none & ~is_open.full
        taken = self.write.valid & self.write.ready
        m.d.comb += [
            words.i.valid.eq(skid.o.valid),
            words.i.payload.data.eq(skid.o.payload.data),
            words.i.payload.strb.eq(skid.o.payload.strb),
            skid.o.ready.eq(words.i.ready),
            whole.up.eq(words.i.valid & words.i.ready & skid.o.payload.last),
            whole.down.eq(taken),
            is_open.up.eq(taken),
            is_open.down.eq(self.b.valid & self.b.ready),
            self.write.valid.eq(bursts.valid & allowed),
            self.write.payload.eq(bursts.payload),
            bursts.ready.eq(self.write.ready & allowed),
            answers.i.valid.eq(self.write_done.valid),
            answers.i.payload.eq(self.write_done.payload),
        ]


def _strobed(variant: Variant) -> data.StructLayout:
    """A word to write, and a bit for each of its bytes."""
    return data.StructLayout({"data": variant.bus.data_bits, "strb": variant.bus_bytes})


def _place(entry: Any) -> data.StructLayout:
    """Fields of a word's number, lowest first: neighbouring rows lie in neighbouring banks."""
    return data.StructLayout({name: len(entry[name]) for name in ("column", "bank", "row")})
