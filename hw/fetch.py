"""FETCH: read the program, and hand each instruction to the queue of its unit.

Input: words of the program from the read master. Output: one stream of raw instructions per unit.
"""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.axi import MAX_BURST_BEATS
from daedal.hw.interfaces import error_signature, read_request, read_word
from daedal.hw.layouts import INDEX_BITS, entry_layout
from daedal.hw.strided import word_address_bits
from daedal.isa.registers import CycleClass, ErrorCode
from daedal.isa.table import INSTRUCTIONS, Opcode, Unit, instruction_bits, instruction_layout
from daedal.isa.variant import Variant

__all__ = ["Fetch"]

_LENGTH_BITS = 32

_WAITS = {
    Unit.LOAD: CycleClass.WAIT_LOAD,
    Unit.GEMM: CycleClass.WAIT_GEMM,
    Unit.ALU: CycleClass.WAIT_ALU,
    Unit.STORE: CycleClass.WAIT_STORE,
}


class Fetch(wiring.Component):
    """The FETCH unit.

    It asks for the program as fast as its FIFO in the read master takes it, and dispatches an
    instruction as soon as all its words are there: at the rate of the bus, one per cycle where an
    instruction is one bus word. After FINISH it throws away what it has asked for beyond, and
    waits for `all_quiet`.

    An unknown opcode is ILLEGAL_INSTRUCTION, a program that ends without FINISH NO_FINISH (naming
    its last instruction), a bad RRESP READ_SLVERR or READ_DECERR; after an error the unit stands
    still until it is reset.

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
    queue0 to queue3 : ``Out(stream.Signature(entry_layout(variant)))``
        Instructions for LOAD, GEMM, ALU and STORE.
    all_quiet : ``In(1)``
        No unit holds an instruction, and no write is unacknowledged.
    done : ``Out(1)``
        Pulse: FINISH is reached and all is quiet.
    finishing : ``Out(1)``
        FINISH is reached.
    cycle_class : ``Out(CycleClass)``
        BUSY: dispatches. WAIT_x: the queue of x is full. STALL: waits for memory. IDLE: else.
    work : ``Out(1)``
        An instruction is dispatched; FINISH does not count.
    error : see `interfaces.unit_signature`
    index : ``Out(INDEX_BITS)``
        Number of the instruction at hand, or of the last one while there is none.
    """

    def __init__(self, *, variant: Variant) -> None:
        self._variant = variant
        queue = stream.Signature(entry_layout(variant))
        super().__init__(
            {
                "start": In(1),
                "program_word_address": In(word_address_bits(variant)),
                "length": In(_LENGTH_BITS),
                "request": Out(read_request(variant)),
                "data": In(read_word(variant)),
                **{f"queue{unit}": Out(queue) for unit in _WAITS},
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

    def elaborate(self, platform: object) -> Module:
        m = Module()
        running = Signal()
        outstanding = self._ask(m, running)
        entry_valid, entry, response, left, take = self._assemble(m, running)

        opcode = entry.instruction[
            : instruction_layout(self._variant, Opcode.FINISH)["opcode"].width
        ]
        good = entry_valid & running & ~response[1]
        m.d.comb += self.index.eq(entry.index)

        ready = Signal()
        known = Signal()
        finish = Signal()
        waits_for = Signal(CycleClass)
        for form in INSTRUCTIONS.values():
            with m.If(opcode == form.opcode):
                m.d.comb += known.eq(1)
                if form.unit is Unit.FETCH:
                    m.d.comb += finish.eq(good)
                else:
                    queue = getattr(self, f"queue{form.unit.value}")
                    m.d.comb += [
                        queue.valid.eq(good),
                        ready.eq(queue.ready),
                        waits_for.eq(_WAITS[form.unit]),
                    ]
        for unit in _WAITS:
            m.d.comb += getattr(self, f"queue{unit.value}").payload.eq(entry)

        dispatch = good & ready
        m.d.comb += [
            take.eq(dispatch),
            self.work.eq(dispatch),
            self.done.eq(self.finishing & (outstanding == 0) & self.all_quiet),
        ]
        with m.If(self.start):
            m.d.sync += running.eq(1)
        with m.If(finish):
            m.d.sync += [running.eq(0), self.finishing.eq(1)]
        with m.If(self.done):
            m.d.sync += [self.finishing.eq(0), entry_valid.eq(0)]

        self._report(m, running, entry_valid, response, known, left)
        with m.If(dispatch):
            m.d.comb += self.cycle_class.eq(CycleClass.BUSY)
        with m.Elif(good & known & ~finish):
            m.d.comb += self.cycle_class.eq(waits_for)
        with m.Elif(running & ~entry_valid):
            m.d.comb += self.cycle_class.eq(CycleClass.STALL)
        return m

    def _ask(self, m: Module, running: Signal) -> Signal:
        """Request the program piece by piece; return the number of words not yet received."""
        beats = self._beats
        left = Signal(range((1 << _LENGTH_BITS) * beats))
        address = Signal.like(self.program_word_address, reset_less=True)
        outstanding = Signal(left.shape())
        # Short pieces, so that little is thrown away after a FINISH in the middle.
        piece = Signal(range(MAX_BURST_BEATS + 1))
        m.d.comb += piece.eq(Mux(left < MAX_BURST_BEATS, left, MAX_BURST_BEATS))
        free = ~self.request.valid | self.request.ready
        asks = free & running & (left != 0)
        received = self.data.valid & self.data.ready
        m.d.sync += outstanding.eq(outstanding + Mux(asks, piece, 0) - received)
        with m.If(free):
            m.d.sync += [
                self.request.valid.eq(asks),
                self.request.payload.address.eq(address),
                self.request.payload.beats.eq(piece),
            ]
        with m.If(asks):
            m.d.sync += [left.eq(left - piece), address.eq(address + piece)]
        with m.If(self.start):
            m.d.sync += [left.eq(self.length * beats), address.eq(self.program_word_address)]
        return outstanding

    def _assemble(
        self, m: Module, running: Signal
    ) -> tuple[Signal, data.View, Signal, Signal, Signal]:
        """Collect the words of an instruction.

        Returns whether there is one, it, its worst response, how many are still to come, and the
        signal that takes it.
        """
        beats, width = self._beats, self._variant.bus.data_bits
        entry = Signal(entry_layout(self._variant), reset_less=True)
        entry_valid = Signal()
        response, worst = Signal(2), Signal(2)
        left = Signal(_LENGTH_BITS)  # instructions not yet assembled
        index = Signal(INDEX_BITS)
        count = Signal(range(max(2, beats)))
        parts = Signal(data.ArrayLayout(width, beats), reset_less=True)
        take = Signal()

        word = self.data.payload
        last = count == beats - 1
        move = self.data.valid & self.data.ready
        so_far = Mux(word.response > worst, word.response, worst)
        # Whatever comes in after FINISH is thrown away.
        m.d.comb += self.data.ready.eq(self.finishing | ~last | ~entry_valid | take)
        with m.If(take):
            m.d.sync += entry_valid.eq(0)
        with m.If(move):
            m.d.sync += [
                parts[count].eq(word.data),
                count.eq(Mux(last, 0, count + 1)),
                worst.eq(Mux(last, 0, so_far)),
            ]
        with m.If(move & last & running):
            m.d.sync += [
                entry_valid.eq(1),
                entry.instruction.eq(Cat(*(parts[k] for k in range(beats - 1)), word.data)),
                entry.index.eq(index),
                response.eq(so_far),
                index.eq(index + 1),
                left.eq(left - 1),
            ]
        with m.If(self.start):
            m.d.sync += [
                left.eq(self.length),
                index.eq(0),
                count.eq(0),
                worst.eq(0),
                entry.index.eq(0),
            ]
        return entry_valid, entry, response, left, take

    def _report(
        self,
        m: Module,
        running: Signal,
        entry_valid: Signal,
        response: Signal,
        known: Signal,
        left: Signal,
    ) -> None:
        """Raise the error pulse, and stop for good."""
        m.d.sync += self.error.valid.eq(0)
        with m.If(running & (Mux(entry_valid, response[1] | ~known, left == 0))):
            m.d.sync += [
                running.eq(0),
                self.error.valid.eq(1),
                self.error.index.eq(self.index),
                self.error.code.eq(ErrorCode.ILLEGAL_INSTRUCTION),
            ]
            with m.If(~entry_valid):
                m.d.sync += self.error.code.eq(ErrorCode.NO_FINISH)
            with m.Elif(response[1]):
                m.d.sync += self.error.code.eq(
                    Mux(response[0], ErrorCode.READ_DECERR, ErrorCode.READ_SLVERR)
                )
