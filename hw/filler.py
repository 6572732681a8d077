"""The half of LOAD that writes: words in, rows of data and of pad out, side by side."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.interfaces import error_signature, fill_signature, pad_signature, read_word
from daedal.hw.layouts import retire_layout
from daedal.hw.plane_walk import DataWalk, PadWalk, load_job_layout
from daedal.isa.registers import ErrorCode
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import LoadMemory
from daedal.isa.variant import Variant

__all__ = ["LoadFiller", "memory_beats"]


def memory_beats(variant: Variant, memory: LoadMemory) -> int:
    """Bus words of a scratchpad row in memory; always a power of two."""
    pad = scratchpad(variant, memory.memory)
    if memory is LoadMemory.ACC_NARROW:
        return pad.elements * variant.array.input_bits // variant.bus.data_bits
    return pad.row_beats(variant)


class LoadFiller(wiring.Component):
    """Walk over jobs, one bus word per cycle, and their pads beside the words.

    Pads of INP are written in the columns (bus words of a row) that the data of this cycle leaves
    free, so a row of pad takes one cycle while no data moves, two while it does, and none from the
    data unless a row is a single bus word. Pads of the accumulators take the cycles in which no
    data moves. Data and pads of one instruction are in no order; instructions are.

    Parameters
    ----------
    variant
        The machine.

    Members
    -------
    job : ``In(stream.Signature(load_job_layout(variant)))``
    data : ``In(read_word(variant))``
    fill : ``Out(fill_signature(variant))``, straight from registers.
    pads : ``Out(pad_signature(variant))``, straight from registers.
    retire, error : as in `interfaces.unit_signature`
    work, padding : ``Out(1)``
        A word was taken on its way to `fill` in this cycle; some of a row of pad was.
    active : ``Out(1)``
        A job is at hand.
    draining : ``Out(1)``
        The last of a job is still on its way.
    """

    def __init__(self, *, variant: Variant) -> None:
        self._variant = variant
        super().__init__(
            {
                "job": In(stream.Signature(load_job_layout(variant))),
                "data": In(read_word(variant)),
                "fill": Out(fill_signature(variant)),
                "pads": Out(pad_signature(variant)),
                "retire": Out(wiring.Signature({"valid": Out(1), "payload": Out(retire_layout())})),
                "error": Out(error_signature()),
                "work": Out(1),
                "padding": Out(1),
                "active": Out(1),
                "draining": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        job = Signal.like(self.job.payload, reset_less=True)
        halted = Signal()
        m.submodules.data_walk = data_walk = DataWalk(variant=self._variant)
        m.submodules.pad_walk = pad_walk = PadWalk(variant=self._variant)
        for walk in (data_walk, pad_walk):
            m.d.comb += [
                walk.incoming.eq(self.job.payload),
                walk.start.eq(self.job.ready),
                walk.job.eq(job),
            ]

        free = ~self.fill.valid | self.fill.ready
        ready = self.active & ~halted & free
        may_move = Signal()
        m.d.comb += may_move.eq(ready & ~job.illegal)

        busy, data_over, no_data_row = self._step_data(m, job, may_move, data_walk)
        pads_over, no_pad_row = self._step_pads(m, job, may_move, pad_walk, busy)
        over = may_move & data_over & pads_over
        self._write(m, job, free, data_walk, pad_walk)
        self._retire(m, job, free, over)
        self._report(m, job, ready, no_data_row | no_pad_row, halted)

        m.d.comb += self.job.ready.eq(~self.active | over)
        with m.If(self.job.ready):
            m.d.sync += [self.active.eq(self.job.valid), job.eq(self.job.payload)]
        return m

    def _step_data(
        self, m: Module, job: data.View, may_move: Signal, walk: DataWalk
    ) -> tuple[Signal, Value, Value]:
        """Take a word if the position asks for one.

        Returns the columns that the word occupies (of the accumulators: all), whether all data is
        written with this cycle, and whether the next word has no row to go to.
        """
        done = Signal(reset_less=True)
        beat = Signal.like(self.fill.payload.beat, reset_less=True)
        last_beat = Signal.like(beat, reset_less=True)
        at_data = ~done & walk.at_data
        row_end = self.work & (beat == last_beat)
        bad = self.data.payload.response[1]
        last = row_end & walk.last & ~bad
        m.d.comb += [
            self.data.ready.eq(may_move & at_data & ~walk.beyond),
            self.work.eq(self.data.ready & self.data.valid),
            walk.step.eq(row_end | (may_move & ~done & ~walk.at_data)),
        ]
        with m.If(self.fill.ready | ~self.fill.valid):
            m.d.sync += self.fill.payload.beat.eq(beat)
        with m.If(self.work):
            m.d.sync += beat.eq(Mux(row_end, 0, beat + 1))
        with m.If(last):
            m.d.sync += done.eq(1)
        with m.If(self.job.ready):
            m.d.sync += [beat.eq(0), done.eq(~self.job.payload.has_data)]
            with m.Switch(self.job.payload.memory):
                for memory in LoadMemory:
                    with m.Case(memory):
                        m.d.sync += last_beat.eq(memory_beats(self._variant, memory) - 1)
        busy = Signal.like(self.pads.enable, name="busy_columns")
        with m.If(self.work):
            m.d.comb += busy.eq(Mux(job.memory == LoadMemory.INP, 1 << beat, ~0))
        return busy, done | last, at_data & walk.beyond

    def _step_pads(
        self, m: Module, job: data.View, may_move: Signal, walk: PadWalk, busy: Signal
    ) -> tuple[Value, Value]:
        """Write what the data leaves free of a row of pad; the row is left when it is complete.

        Returns whether all pads are written with this cycle, and whether the next has no row.
        """
        done = Signal(reset_less=True)
        missing = Signal.like(busy, name="missing_columns", reset_less=True)
        at_pad = ~done & ~walk.at_data
        writes = Signal()
        now = Signal.like(busy, name="pad_columns")
        complete = (missing & busy) == 0
        m.d.comb += [
            writes.eq(may_move & at_pad & ~walk.beyond),
            now.eq(Mux(writes, missing & ~busy, 0)),
            self.padding.eq(now.any()),
            walk.step.eq((writes & complete) | (may_move & ~done & walk.at_data)),
        ]
        last = walk.step & walk.last
        m.d.sync += self.pads.enable.eq(Mux(job.memory == LoadMemory.INP, now, 0))
        with m.If(writes):
            m.d.sync += missing.eq(Mux(complete, ~0, missing & busy))
        with m.If(last):
            m.d.sync += done.eq(1)
        with m.If(self.job.ready):
            m.d.sync += [missing.eq(~0), done.eq(~self.job.payload.has_pads)]
        return done | last, at_pad & walk.beyond

    def _write(
        self, m: Module, job: data.View, free: Value, data_walk: DataWalk, pad_walk: PadWalk
    ) -> None:
        """Registers in front of the scratchpads."""
        pad_word = Signal.like(self.pads.data, name="pad_word", reset_less=True)
        with m.If(self.job.ready):
            m.d.sync += pad_word.eq(self._pad_word(m))
        fill = self.fill.payload
        whole_row = self.padding & (job.memory != LoadMemory.INP)
        m.d.sync += [self.pads.row.eq(pad_walk.row), self.pads.data.eq(pad_word)]
        with m.If(free):
            m.d.sync += [
                self.fill.valid.eq(self.work | whole_row),
                fill.memory.eq(Mux(self.work, job.memory, LoadMemory.ACC)),
                fill.row.eq(Mux(self.work, data_walk.row, pad_walk.row)),
                fill.pad.eq(~self.work),
                fill.data.eq(Mux(self.work, self.data.payload.data, pad_word)),
            ]

    def _retire(self, m: Module, job: data.View, free: Value, over: Value) -> None:
        """An instruction retires when the last of what it writes is accepted."""
        ending = Signal()
        ending_as = Signal(retire_layout(), reset_less=True)
        with m.If(free):
            m.d.sync += [ending.eq(over), ending_as.eq(job.retire)]
        m.d.sync += [self.retire.valid.eq(ending & free), self.retire.payload.eq(ending_as)]
        m.d.comb += self.draining.eq(self.fill.valid | ending | self.retire.valid)

    def _report(
        self, m: Module, job: data.View, ready: Value, beyond: Value, halted: Signal
    ) -> None:
        """Raise the error pulse, and stop for good."""
        response = self.data.payload.response
        m.d.sync += self.error.valid.eq(0)
        with m.If(ready & (job.illegal | beyond | (self.work & response[1]))):
            m.d.sync += [
                halted.eq(1),
                self.error.valid.eq(1),
                self.error.index.eq(job.retire.index),
                self.error.code.eq(Mux(response[0], ErrorCode.READ_DECERR, ErrorCode.READ_SLVERR)),
            ]
            with m.If(job.illegal):
                m.d.sync += self.error.code.eq(ErrorCode.ILLEGAL_INSTRUCTION)
            with m.Elif(beyond):
                m.d.sync += self.error.code.eq(ErrorCode.ROW_RANGE)

    def _pad_word(self, m: Module) -> Signal:
        """A bus word full of the incoming job's pad value in the memory form of its elements."""
        variant = self._variant
        value = self.job.payload.pad_value
        result = Signal(variant.bus.data_bits, name="pad_word_next")

        def filled(element_bits: int) -> Value:
            element = Signal(element_bits, name=f"pad_element_{element_bits}")
            m.d.comb += element.eq(value.as_signed())
            return Cat([element] * (variant.bus.data_bits // element_bits))

        m.d.comb += result.eq(filled(scratchpad(variant, Memory.ACC).memory_bits))
        with m.If(self.job.payload.memory == LoadMemory.INP):
            m.d.comb += result.eq(filled(scratchpad(variant, Memory.INP).memory_bits))
        return result
