"""FETCH: read the program, and dispatch each instruction to the queue of its unit.

Input: words of the program from the read master. Output: one stream of raw instructions per unit.
"""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from daedal.hw.contracts import contract
from daedal.hw.family import Platform
from daedal.hw.interfaces import error_signature, read_request, read_word
from daedal.hw.issue.assembler import LENGTH_BITS, Assembler
from daedal.hw.layouts import INDEX_BITS, entry_layout, word_address_bits
from daedal.hw.pipeline import register
from daedal.isa.latencies import MAX_BURST_BEATS
from daedal.isa.registers import CycleClass, ErrorCode
from daedal.isa.table import Unit, instruction_bits
from daedal.isa.variant import Variant

__all__ = ["Fetch"]

_PIECE_BITS = (MAX_BURST_BEATS - 1).bit_length()

_WAITS = {
    Unit.LOAD: CycleClass.WAIT_LOAD,
    Unit.GEMM: CycleClass.WAIT_GEMM,
    Unit.ALU: CycleClass.WAIT_ALU,
    Unit.STORE: CycleClass.WAIT_STORE,
}


class Fetch(wiring.Component):
    """The FETCH unit.

    It prefetches the program as far as its FIFO in the read master has room, and dispatches an
    instruction as soon as all its words have arrived: at the rate of the bus, one per cycle where
    an instruction is one bus word. After FINISH it discards the words prefetched beyond it, and
    waits for `all_quiet`.

    An unknown opcode is ILLEGAL_INSTRUCTION, a program that ends without FINISH NO_FINISH (naming
    its last instruction), a bad RRESP READ_SLVERR or READ_DECERR; after an error the unit halts
    until it is reset.

    Parameters
    ----------
    variant
        The machine.

    Members
    -------
    start : ``In(1)``
        Pulse: run the program of `length` instructions at `program_word_address` (both are read
        in this cycle).
    request, data
        To reader 0 of the read master.
    queue[u] : ``Out(stream.Signature(entry_layout(variant)))``
        Instructions for unit u: LOAD, GEMM, ALU or STORE.
    all_quiet : ``In(1)``
        No unit holds an instruction, and no write is unacknowledged.
    done : ``Out(1)``
        Pulse: FINISH is reached and `all_quiet` is set.
    finishing : ``Out(1)``
        FINISH is reached.
    cycle_class : ``Out(CycleClass)``
        BUSY: dispatches. WAIT_x: the queue of x is full. STALL: waits for memory. IDLE: otherwise.
    work : ``Out(1)``
        An instruction is dispatched; FINISH does not count.
    error : see `interfaces.unit_signature`
    index : ``Out(INDEX_BITS)``
        Index of the current instruction, or of the last one while there is none.
    """

    def __init__(self, *, variant: Variant) -> None:
        self._variant = variant
        super().__init__(
            {
                "start": In(1),
                "program_word_address": In(word_address_bits(variant)),
                "length": In(LENGTH_BITS),
                "request": Out(read_request(variant)),
                "data": In(read_word(variant)),
                "queue": Out(stream.Signature(entry_layout(variant))).array(len(_WAITS)),
                "all_quiet": In(1),
                "done": Out(1),
                "finishing": Out(1),
                "cycle_class": Out(CycleClass),
                "work": Out(1),
                "error": Out(error_signature()),
                "index": Out(INDEX_BITS),
            }
        )
        self._beats = instruction_bits(variant) // variant.bus.data_bits

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        running = Signal()
        received_all = self._ask(m, platform, running)
        m.submodules.assembler = assembler = Assembler(variant=self._variant)
        connect(m, flipped(self.data), assembler.data)
        dispatch = Signal()
        m.d.comb += [
            assembler.start.eq(self.start),
            assembler.length.eq(self.length),
            assembler.running.eq(running),
            assembler.discard.eq(register(m, self.finishing, name="discards", reset_less=False)),
            assembler.take.eq(dispatch),
            dispatch.eq((assembler.target & Cat(queue.ready for queue in self.queue)).any()),
            self.index.eq(assembler.entry.index),
            self.work.eq(dispatch),
            self.done.eq(self.finishing & received_all & self.all_quiet),
        ]
        for unit, queue in enumerate(self.queue):
            m.d.comb += [
                queue.valid.eq(assembler.target[unit]),
                queue.payload.eq(assembler.entry),
            ]
        with m.If(self.start):
            m.d.sync += running.eq(1)
        with m.If(assembler.finish & running):
            m.d.sync += [running.eq(0), self.finishing.eq(1)]
        with m.If(self.done):
            m.d.sync += self.finishing.eq(0)

        self._report(m, running, assembler)
        with m.If(dispatch):
            m.d.comb += self.cycle_class.eq(CycleClass.BUSY)
        for unit, kind in _WAITS.items():
            with m.Elif(assembler.target[unit]):
                m.d.comb += self.cycle_class.eq(kind)
        with m.Elif(running & ~assembler.valid):
            m.d.comb += self.cycle_class.eq(CycleClass.STALL)
        return m

    def _ask(self, m: Module, platform: Platform, running: Signal) -> Signal:
        """Request the program piece by piece; return whether all requested words have arrived."""
        total = Signal(range((1 << LENGTH_BITS) * self._beats))
        m.d.comb += total.eq(self.length * self._beats)
        # Short pieces, so that few words are discarded after an early FINISH: the length of the
        # longest burst, then the rest.
        pieces, rest = Signal(len(total) - _PIECE_BITS), Signal(_PIECE_BITS)
        no_pieces, more = Signal(), Signal()
        address = Signal.like(self.program_word_address, reset_less=True)
        free = ~self.request.valid | self.request.ready
        asks = Signal()
        m.d.comb += asks.eq(free & running & more)
        with m.If(free):
            m.d.sync += [
                self.request.valid.eq(asks),
                self.request.payload.address.eq(address),
                self.request.payload.beats.eq(Mux(no_pieces, rest, MAX_BURST_BEATS)),
            ]
        with m.If(asks):
            m.d.sync += [
                pieces.eq(pieces - 1),
                no_pieces.eq(pieces == 1),
                more.eq(~no_pieces & ((pieces != 1) | rest.any())),
                address.eq(address + MAX_BURST_BEATS),
            ]
        with m.If(self.start):
            m.d.sync += [
                Cat(rest, pieces).eq(total),
                no_pieces.eq(total[_PIECE_BITS:] == 0),
                more.eq(total != 0),
                address.eq(self.program_word_address),
            ]
        return self._count_words(m, platform, asks)

    def _count_words(self, m: Module, platform: Platform, asks: Signal) -> Signal:
        """Whether all requested words have arrived; the count itself lags by one cycle."""
        asked = Signal()
        outstanding = Signal(range((1 << LENGTH_BITS) * self._beats))
        received = self.data.valid & self.data.ready
        received_all = Signal(init=1)
        contract(m, platform, ~received | (outstanding != 0), "only words asked for must come")
        m.d.sync += [
            asked.eq(asks),
            outstanding.eq(outstanding + Mux(asked, self.request.payload.beats, 0) - received),
            received_all.eq(~asks & ~asked & (received_all | (received & (outstanding == 1)))),
        ]
        return received_all

    def _report(self, m: Module, running: Signal, assembler: Assembler) -> None:
        """Raise the error pulse, and halt."""
        m.d.sync += self.error.valid.eq(0)
        with m.If(running & (assembler.missing | assembler.wrong)):
            m.d.sync += [
                running.eq(0),
                self.error.valid.eq(1),
                self.error.index.eq(self.index),
                self.error.code.eq(ErrorCode.ILLEGAL_INSTRUCTION),
            ]
            with m.If(assembler.missing):
                m.d.sync += self.error.code.eq(ErrorCode.NO_FINISH)
            with m.Elif(assembler.response[1]):
                m.d.sync += self.error.code.eq(
                    Mux(assembler.response[0], ErrorCode.READ_DECERR, ErrorCode.READ_SLVERR)
                )
