"""The half of LOAD that writes: words in, rows of data and of pad out, side by side."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from daedal.hw.fill_buffer import FillBuffer
from daedal.hw.interfaces import error_signature, fill_signature, pad_signature, read_word
from daedal.hw.layouts import retire_layout
from daedal.hw.plane_walk import DataWalk, PadWalk, data_walk_layout, pad_walk_layout
from daedal.isa.registers import ErrorCode
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import LoadMemory, Opcode, instruction_layout
from daedal.isa.variant import Variant

__all__ = ["LoadFiller", "load_job_layout"]


def load_job_layout(variant: Variant) -> data.StructLayout:
    """One LOAD, but for where its rows are."""
    fields = instruction_layout(variant, Opcode.LOAD)
    return data.StructLayout(
        {
            "memory": fields["memory"].width,
            "illegal": 1,
            "pad_value": fields["pad_value"].width,
            "retire": retire_layout(),
        }
    )


class LoadFiller(wiring.Component):
    """Walk over jobs, one bus word per cycle, and their pads beside the words.

    Pads of INP are written in the columns (bus words of a row) that the data of this cycle leaves
    free, so a row of pad takes one cycle while no data moves, two while it does, and none from the
    data unless a row is a single bus word. Pads of the accumulators take the cycles in which no
    data moves. Data and pads of one instruction are in no order; instructions are, and each takes
    two cycles at least.

    What a cycle can do is known from registers, those of the walks and of the buffer behind them;
    only the words of the bus come when they come.

    Parameters
    ----------
    variant
        The machine.

    Members
    -------
    job, data_job, pad_job : ``In(stream.Signature(...))``
        An instruction, its data and its pads; all three come in the same cycle.
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
                "data_job": In(stream.Signature(data_walk_layout(variant))),
                "pad_job": In(stream.Signature(pad_walk_layout(variant))),
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
        variant = self._variant
        m.submodules.rows = rows = DataWalk(variant=variant)
        m.submodules.pad_rows = pad_rows = PadWalk(variant=variant)
        m.submodules.buffer = buffer = FillBuffer(variant=variant)
        connect(m, flipped(self.data_job), rows.job)
        connect(m, flipped(self.pad_job), pad_rows.job)
        connect(m, buffer.fill, flipped(self.fill))
        connect(m, buffer.retire, flipped(self.retire))

        job = Signal.like(self.job.payload, reset_less=True)
        # A legal job is at hand, and nothing has failed; it may move; a word moves if it may.
        moving, may_move, comes = Signal(), Signal(), Signal()
        starts, over = Signal(), Signal()
        m.d.comb += [
            may_move.eq(moving & buffer.ready),
            comes.eq(rows.writes & self.data.valid),
            self.data.ready.eq(may_move & rows.writes),
            self.work.eq(may_move & comes),
            self.draining.eq(buffer.active),
            starts.eq(~self.active | over),
        ]
        data_over = rows.done | (comes & rows.last)
        pads_over, covers = self._step_pads(m, pad_rows, may_move, comes, rows.beat, starts)

        first = Signal()
        m.d.comb += [
            # Not in a job's first cycle: the walks look one job ahead, the buffer keeps one end.
            over.eq(may_move & data_over & pads_over & ~first & ~buffer.ending),
            rows.step.eq(may_move & (rows.skips | comes)),
            rows.over.eq(over),
            pad_rows.over.eq(over),
            buffer.over.eq(over & ~(comes & self.data.payload.response[1])),
            buffer.over_as.eq(job.retire),
        ]
        self._write(m, job, buffer, may_move & (comes | covers), rows, pad_rows, comes, starts)
        with m.If(starts):
            m.d.sync += first.eq(1)
        with m.Elif(rows.valid & pad_rows.valid):
            m.d.sync += first.eq(0)

        # The queue of jobs goes on in the cycle after, so that nothing here reaches into it.
        m.d.sync += self.job.ready.eq(starts & self.job.valid)
        with m.If(starts):
            m.d.sync += [
                self.active.eq(self.job.valid),
                moving.eq(self.job.valid & ~self.job.payload.illegal),
                job.eq(self.job.payload),
            ]
        beyond = moving & (rows.beyond | pad_rows.beyond)
        self._report(m, job, beyond, moving)
        return m

    def _step_pads(
        self,
        m: Module,
        walk: PadWalk,
        may_move: Value,
        comes: Value,
        beat: Value,
        starts: Value,
    ) -> tuple[Value, Value]:
        """Write what the data leaves free of a row of pad; the row is left when it is complete.

        Data of INP leaves all columns but one free. That one is written in the next cycle in which
        anything moves, for by then data is in another column, unless a row is just one. Returns
        whether all pads are complete if anything moves, and whether a pad goes through `fill`.
        """
        columns = len(self.pads.enable)
        # Of the accumulators and of rows of one column, data leaves nothing.
        into_inp, narrow = Signal(reset_less=True), Signal(reset_less=True)
        untouched = Signal(reset_less=True)
        missing = Signal.like(beat, name="missing_column", reset_less=True)
        blocked = comes & untouched
        complete = walk.skips | (walk.writes & ~blocked)
        m.d.comb += [
            walk.step.eq(may_move & complete),
            self.padding.eq(may_move & walk.writes & ~(comes & narrow)),
        ]
        for number in range(columns):
            free = Mux(untouched, ~(comes & (beat == number)), missing == number)
            enable = may_move & walk.writes & into_inp & free
            m.d.sync += self.pads.enable[number].eq(enable)
        with m.If(may_move & walk.writes):
            m.d.sync += [untouched.eq(~blocked | narrow), missing.eq(beat)]
        with m.If(starts):
            is_inp = self.job.payload.memory == LoadMemory.INP
            m.d.sync += [
                untouched.eq(1),
                into_inp.eq(is_inp),
                narrow.eq(~is_inp if columns > 1 else 1),
            ]
        return walk.done | (walk.last & complete), walk.writes & ~into_inp

    def _write(
        self,
        m: Module,
        job: data.View,
        buffer: FillBuffer,
        moves: Value,
        rows: DataWalk,
        pad_rows: PadWalk,
        comes: Value,
        starts: Value,
    ) -> None:
        """What goes into the scratchpads: to the buffer, and to the register of INP's pads."""
        pad_word = Signal.like(self.pads.data, name="pad_word", reset_less=True)
        with m.If(starts):
            m.d.sync += pad_word.eq(self._pad_word(m))
        fill = buffer.move.fill
        into_acc = (job.memory == LoadMemory.ACC) | (job.memory == LoadMemory.ACC_NARROW)
        m.d.comb += [
            buffer.move.valid.eq(moves),
            fill.memory.eq(Mux(comes, job.memory, LoadMemory.ACC)),
            fill.into_acc.eq(~comes | into_acc),
            fill.row.eq(Mux(comes, rows.row, pad_rows.row)),
            fill.beat.eq(rows.beat),
            fill.pad.eq(~comes),
            fill.data.eq(Mux(comes, self.data.payload.data, pad_word)),
        ]
        m.d.sync += [self.pads.row.eq(pad_rows.row), self.pads.data.eq(pad_word)]

    def _report(self, m: Module, job: data.View, beyond: Value, moving: Signal) -> None:
        """Raise the error pulse, and stop for good."""
        response = self.data.payload.response
        refused = self.active & job.illegal
        halted, fails = Signal(), Signal()
        m.d.comb += fails.eq(refused | beyond | (self.work & response[1]))
        m.d.sync += [
            self.error.valid.eq(fails & ~halted),
            self.error.index.eq(job.retire.index),
            self.error.code.eq(Mux(response[0], ErrorCode.READ_DECERR, ErrorCode.READ_SLVERR)),
        ]
        with m.If(refused):
            m.d.sync += self.error.code.eq(ErrorCode.ILLEGAL_INSTRUCTION)
        with m.Elif(beyond):
            m.d.sync += self.error.code.eq(ErrorCode.ROW_RANGE)
        with m.If(fails | halted):
            m.d.sync += [halted.eq(1), moving.eq(0)]

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
