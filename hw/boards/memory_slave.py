"""An AXI4 slave for on-chip memory, with a second port for the host.

Input: the five channels of the machine's master, and the host's accesses. Both are served at the
same time.
"""

from typing import Any

from amaranth.hdl import Elaboratable, Module, Mux, ResetInserter, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import connect, flipped

from daedal.hw.boards.block_memory import READ_LATENCY_CYCLES, BlockMemory
from daedal.hw.boards.memory_port import memory_port
from daedal.hw.family import Platform
from daedal.hw.parts.skid import SkidBuffer
from daedal.hw.pipeline import register
from daedal.isa.variant import Variant

__all__ = ["MemorySlave"]

_OKAY, _DECERR = 0b00, 0b11

_ADDRESS_FIFO = 2
_ANSWER_FIFO = 4
_WORD_FIFO = 2 * READ_LATENCY_CYCLES
"""Words that may wait for RREADY: all in flight, and as many again to keep full throughput."""


class MemorySlave(wiring.Component):
    """`num_words` bus words from byte address 0 on; accesses beyond get DECERR.

    INCR bursts of whole bus words, aligned, of any length up to 256 that do not cross 4 KiB: all
    that `ReadMaster` and `WriteMaster` send. Bursts of a direction are served in order, one word
    per cycle without a gap between them; reads and writes do not wait for each other. The host has
    priority: its access takes the slot of one word of the machine.

    Latency: 11 cycles from AR to the first R, 3 from the last W to B, 6 from a read of the host to
    its word.

    Parameters
    ----------
    variant
        Bus widths.
    num_words
        A multiple of `block_memory.BANK_WORDS`.

    Members
    -------
    ar, aw : ``In(stream.Signature(address_channel(variant)))``
    r : ``Out(stream.Signature(read_channel(variant)))``
    w : ``In(stream.Signature(write_channel(variant)))``
    b : ``Out(stream.Signature(response_channel()))``
    host : ``In(host_access(variant, num_words))``
    machine_reset : ``In(1)``
        Forgets all bursts and accesses; the memory keeps its contents.

    Source: IHI 0022, A3.3 (a B follows the last W), A3.4.1 (bursts), A3.4.4 (DECERR).
    """

    def __init__(self, *, variant: Variant, num_words: int) -> None:
        self._variant = variant
        self._num_words = num_words
        super().__init__(memory_port(variant, num_words))

    @property
    def num_words(self) -> int:
        """As given."""
        return self._num_words

    def elaborate(self, platform: Platform) -> Elaboratable:
        m = Module()
        m.submodules.memory = memory = BlockMemory(
            num_words=self._num_words, word_bytes=self._variant.bus_bytes
        )
        # Incoming channels pass skid buffers: the machine may lie far away on the chip.
        channels = {}
        for name in ("ar", "aw", "w"):
            channel = getattr(self, name)
            m.submodules[f"{name}_skid"] = skid = SkidBuffer(channel.payload.shape())
            connect(m, flipped(channel), skid.i)
            channels[name] = skid.o
        m.d.comb += self.host.ready.eq(1)
        host = _Host(m, self.host)
        self._serve_reads(m, memory, channels["ar"], host)
        self._serve_writes(m, memory, channels["aw"], channels["w"], host)
        return ResetInserter(self.machine_reset)(m)

    def _bursts(self, m: Module, name: str, channel: Any) -> Any:
        """The bursts of an address channel, as a stream with registered outputs.

        Fields: `id`, `len`, `address` (in words) and `beyond` the end of memory.
        """
        word_shift = self._variant.word_offset_bits
        layout = data.StructLayout(
            {
                "id": channel.payload.id.shape(),
                "len": 8,
                "address": range(self._num_words),
                "beyond": 1,
            }
        )
        m.submodules[f"{name}_fifo"] = fifo = SyncFIFO(width=layout.size, depth=_ADDRESS_FIFO)
        entry = Signal(layout, name=f"{name}_entry")
        word_address = channel.payload.addr[word_shift:]
        m.d.comb += [
            channel.ready.eq(fifo.w_rdy),
            fifo.w_en.eq(channel.valid),
            fifo.w_data.eq(entry),
            entry.id.eq(channel.payload.id),
            entry.len.eq(channel.payload.len),
            entry.address.eq(word_address),
            entry.beyond.eq(word_address >= self._num_words),
        ]
        bursts = stream.Signature(layout).create(path=(f"{name}_burst",))
        m.d.comb += fifo.r_en.eq(bursts.ready | ~bursts.valid)
        with m.If(fifo.r_en):
            m.d.sync += [bursts.valid.eq(fifo.r_rdy), Value.cast(bursts.payload).eq(fifo.r_data)]
        return bursts

    def _serve_reads(self, m: Module, memory: BlockMemory, ar: Any, host: "_Host") -> None:
        bursts = self._bursts(m, "ar", ar)
        burst = bursts.payload
        host_reads = host.reads

        active, beyond = Signal(), Signal()
        address = Signal(range(self._num_words), reset_less=True)
        beats_left = Signal(8, reset_less=True)
        burst_id = Signal.like(burst.id, name="read_id", reset_less=True)
        credits = Signal(range(_WORD_FIFO + 1), init=_WORD_FIFO)
        step, last = Signal(), Signal()
        m.d.comb += [
            step.eq(active & (credits != 0) & ~host_reads),
            last.eq(beats_left == 0),
            bursts.ready.eq(~active | (step & last)),
            memory.read.enable.eq(host_reads | step),
            memory.read.address.eq(Mux(host_reads, host.address, address)),
        ]
        with m.If(step):
            m.d.sync += [address.eq(address + 1), beats_left.eq(beats_left - 1)]
        with m.If(bursts.ready):
            m.d.sync += [
                active.eq(bursts.valid),
                address.eq(burst.address),
                beats_left.eq(burst.len),
                beyond.eq(burst.beyond),
                burst_id.eq(burst.id),
            ]

        # The tag of a word, delayed by the memory's latency.
        beat = Signal(data.StructLayout({"id": burst.id.shape(), "last": 1, "beyond": 1}))
        m.d.comb += [beat.id.eq(burst_id), beat.last.eq(last), beat.beyond.eq(beyond)]
        travelling = (step, beat, host_reads)
        for stage in range(READ_LATENCY_CYCLES):
            later = (
                Signal(name=f"step{stage}"),
                Signal(beat.shape(), name=f"beat{stage}", reset_less=True),
                Signal(name=f"host{stage}"),
            )
            m.d.sync += [new.eq(old) for new, old in zip(later, travelling, strict=True)]
            travelling = later
        landed, landed_beat, landed_host = travelling
        m.d.comb += [self.host.word_valid.eq(landed_host), self.host.word.eq(memory.read.data)]
        self._answer_reads(m, landed, landed_beat, memory.read.data, credits, step)

    def _answer_reads(
        self,
        m: Module,
        landed: Signal,
        beat: data.View,
        word: Value,
        credits: Signal,
        step: Signal,
    ) -> None:
        """Buffer words until RREADY; a credit is a place not reserved by a word in flight."""
        m.submodules.words = words = SyncFIFO(width=self.r.payload.shape().size, depth=_WORD_FIFO)
        entry = Signal.like(self.r.payload)
        take = Signal()
        m.d.comb += [
            words.w_en.eq(landed),
            words.w_data.eq(entry),
            entry.id.eq(beat.id),
            entry.last.eq(beat.last),
            entry.data.eq(word),
            entry.resp.eq(Mux(beat.beyond, _DECERR, _OKAY)),
            take.eq(self.r.ready | ~self.r.valid),
            words.r_en.eq(take),
        ]
        with m.If(take):
            m.d.sync += [
                self.r.valid.eq(words.r_rdy),
                Value.cast(self.r.payload).eq(words.r_data),
            ]
        m.d.sync += credits.eq(credits + (take & words.r_rdy) - step)

    def _serve_writes(self, m: Module, memory: BlockMemory, aw: Any, w: Any, host: "_Host") -> None:
        bursts = self._bursts(m, "aw", aw)
        burst = bursts.payload
        host_writes = host.writes
        m.submodules.answers = answers = SyncFIFO(
            width=self.b.payload.shape().size, depth=_ANSWER_FIFO
        )
        response = Signal.like(self.b.payload)

        active, beyond = Signal(), Signal()
        address = Signal(range(self._num_words), reset_less=True)
        beats_left = Signal(8, reset_less=True)
        burst_id = Signal.like(burst.id, name="write_id", reset_less=True)
        step, last = Signal(), Signal()
        m.d.comb += [
            w.ready.eq(active & ~host_writes & answers.w_rdy),
            step.eq(w.valid & w.ready),
            last.eq(step & (beats_left == 0)),
            bursts.ready.eq(~active | last),
            memory.write.address.eq(Mux(host_writes, host.address, address)),
            memory.write.data.eq(Mux(host_writes, host.data, w.payload.data)),
            answers.w_en.eq(last),
            answers.w_data.eq(response),
            response.id.eq(burst_id),
            response.resp.eq(Mux(beyond, _DECERR, _OKAY)),
        ]
        with m.If(host_writes):
            m.d.comb += memory.write.enable.eq(host.strobes)
        with m.Elif(step & ~beyond):
            m.d.comb += memory.write.enable.eq(w.payload.strb)
        with m.If(step):
            m.d.sync += [address.eq(address + 1), beats_left.eq(beats_left - 1)]
        with m.If(bursts.ready):
            m.d.sync += [
                active.eq(bursts.valid),
                address.eq(burst.address),
                beats_left.eq(burst.len),
                beyond.eq(burst.beyond),
                burst_id.eq(burst.id),
            ]

        take = self.b.ready | ~self.b.valid
        m.d.comb += answers.r_en.eq(take)
        with m.If(take):
            m.d.sync += [
                self.b.valid.eq(answers.r_rdy),
                Value.cast(self.b.payload).eq(answers.r_data),
            ]


class _Host:
    """An access of the host, in registers: it `reads` or it `writes`, for one cycle."""

    def __init__(self, m: Module, host: Any) -> None:
        some = host.strobes.any()
        self.reads = register(m, host.valid & ~some, name="host_reads", reset_less=False)
        self.writes = register(m, host.valid & some, name="host_writes", reset_less=False)
        self.address, self.strobes, self.data = (
            register(m, value, name=f"host_{name}")
            for name, value in (
                ("address", host.address),
                ("strobes", host.strobes),
                ("data", host.data),
            )
        )
