"""The write half of LOAD: bus words in; rows of data and of pad out, in parallel."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from daedal.hw.contracts import contract
from daedal.hw.family import Platform
from daedal.hw.interfaces import error_signature, fill_signature, pad_signature, read_word
from daedal.hw.layouts import retire_layout
from daedal.hw.load.fill_buffer import FillBuffer
from daedal.hw.load.plane_walk import DataWalk, PadWalk, data_walk_layout, pad_walk_layout
from daedal.isa.registers import ErrorCode
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import LoadMemory, Opcode, instruction_layout
from daedal.isa.variant import Variant

__all__ = ["LoadFiller", "load_job_layout"]


def load_job_layout(variant: Variant) -> data.StructLayout:
    """One LOAD without the positions of its rows, which the walks get."""
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
    """Write the data of jobs, one bus word per cycle, and their pads in parallel.

    Pads of INP are written in the columns (bus words of a row) that the data of this cycle leaves
    free. So a row of pad takes one cycle while no data moves and two while it does, and does not
    delay the data unless a row is a single bus word. Pads of the accumulators are written in cycles
    in which no data moves. Within an instruction, data and pads are not ordered; instructions are
    in order, and each takes at least two cycles.

    The decisions of a cycle depend on registers of the walks and of the buffer, and on `data.valid`
    alone.

    Parameters
    ----------
    variant
        The machine.

    Members
    -------
    job, data_job, pad_job : ``In(stream.Signature(...))``
        An instruction, its data and its pads; all three come in the same cycle.
    data : ``In(read_word(variant))``
    fill : ``Out(fill_signature(variant))``, registered outputs.
    pads : ``Out(pad_signature(variant))``, registered outputs.
    retire, error : as in `interfaces.unit_signature`
    work, padding : ``Out(1)``
        A word was accepted in this cycle; part of a row of pad was written.
    active : ``Out(1)``
        A job is being processed.
    draining : ``Out(1)``
        The end of a job is still in the output buffer.
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

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        variant = self._variant
        m.submodules.rows = rows = DataWalk(variant=variant)
        m.submodules.pad_rows = pad_rows = PadWalk(variant=variant)
        m.submodules.buffer = buffer = FillBuffer(variant=variant)
        connect(m, flipped(self.data_job), rows.job)
        connect(m, flipped(self.pad_job), pad_rows.job)
        connect(m, buffer.fill, flipped(self.fill))
        connect(m, buffer.retire, flipped(self.retire))

        memory = Signal.like(self.job.payload.memory, reset_less=True)
        pad_value = Signal.like(self.job.payload.pad_value, reset_less=True)
        illegal = Signal(reset_less=True)
        retire = Signal(retire_layout(), reset_less=True)  # from a job's second cycle on
        # moving: there is a legal job, and no error; may_move: the buffer has room, too; comes: a
        # data word is available.
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
        blocked, covers = self._step_pads(m, pad_rows, may_move, comes, rows.beat, starts)

        first, may_end = Signal(), Signal()
        m.d.comb += [
            # Not in a job's first cycle: the walks look only one job ahead. Not while `ending`: the
            # buffer holds only one end.
            may_end.eq(may_move & ~first & ~buffer.ending),
            over.eq(
                may_end
                & (rows.done | (rows.ends & self.data.valid))
                & (pad_rows.passed | (pad_rows.ends & ~blocked))
            ),
            rows.step.eq(may_move & (rows.skips | comes)),
            rows.over.eq(over),
            pad_rows.over.eq(over),
            buffer.over.eq(over & ~(comes & self.data.payload.response[1])),
            # Without a data word, no pad is blocked.
            buffer.over_alone.eq(may_end & rows.done & (pad_rows.passed | pad_rows.ends)),
            buffer.over_as.eq(retire),
        ]
        moves = may_move & (comes | covers)
        self._write(m, memory, pad_value, buffer, moves, rows, pad_rows, comes)
        with m.If(starts):
            m.d.sync += first.eq(1)
        with m.Elif(rows.valid & pad_rows.valid):
            m.d.sync += first.eq(0)

        walks = rows.valid & pad_rows.valid
        for holds, rule in (
            (~self.active | first | walks, "the walks must not be behind the filler"),
            (~over | walks, "an instruction must end with both walks"),
        ):
            contract(m, platform, holds, rule)
        # The job queue advances one cycle later: no combinational path from here into it.
        m.d.sync += self.job.ready.eq(starts & self.job.valid)
        with m.If(starts):
            m.d.sync += [
                self.active.eq(self.job.valid),
                moving.eq(self.job.valid & ~self.job.payload.illegal),
                illegal.eq(self.job.payload.illegal),
                memory.eq(self.job.payload.memory),
                pad_value.eq(self.job.payload.pad_value),
            ]
        with m.If(self.job.ready):
            m.d.sync += retire.eq(self.job.payload.retire)
        beyond = moving & (rows.beyond | pad_rows.beyond)
        self._report(m, self.active & illegal, beyond, moving, retire.index)
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
        """Write the columns of a row of pad that the data leaves free; step when it is complete.

        Data of INP occupies one column. The pad of that column is written in the next cycle in
        which anything moves, when data has moved to another column (unless a row has only one).
        Returns whether data keeps the current row of pad from completing, and whether a pad goes
        through `fill`.
        """
        columns = len(self.pads.enable)
        # narrow: data leaves no column free, in the accumulators and where a row has one column.
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
        return blocked, walk.writes & ~into_inp

    def _write(
        self,
        m: Module,
        memory: Value,
        pad_value: Value,
        buffer: FillBuffer,
        moves: Value,
        rows: DataWalk,
        pad_rows: PadWalk,
        comes: Value,
    ) -> None:
        """Drive the buffer of fills and the register of INP's pads."""
        fill = buffer.move.fill
        into_acc = (memory == LoadMemory.ACC) | (memory == LoadMemory.ACC_NARROW)
        m.d.comb += [
            buffer.move.valid.eq(moves),
            fill.memory.eq(Mux(comes, memory, Const(LoadMemory.ACC, len(memory)))),
            fill.into_acc.eq(~comes | into_acc),
            fill.row.eq(Mux(comes, rows.row, pad_rows.row)),
            fill.beat.eq(rows.beat),
            fill.pad.eq(~comes),
            fill.data.eq(
                Mux(comes, self.data.payload.data, self._pad_word(m, pad_value, Memory.ACC))
            ),
        ]
        m.d.sync += [
            self.pads.row.eq(pad_rows.row),
            self.pads.data.eq(self._pad_word(m, pad_value, Memory.INP)),
        ]

    def _report(
        self, m: Module, refused: Value, beyond: Value, moving: Signal, index: Value
    ) -> None:
        """Halt on an error, and raise the error pulse two cycles after it."""
        response = self.data.payload.response
        halted, failed, fails = Signal(), Signal(), Signal()
        code = Signal.like(self.error.code, name="failed_code", reset_less=True)
        m.d.comb += fails.eq(refused | beyond | (self.work & response[1]))
        m.d.sync += [
            failed.eq(fails & ~halted),
            code.eq(Mux(response[0], ErrorCode.READ_DECERR, ErrorCode.READ_SLVERR)),
            self.error.valid.eq(failed),
            self.error.index.eq(index),
            self.error.code.eq(code),
        ]
        with m.If(refused):
            m.d.sync += code.eq(ErrorCode.ILLEGAL_INSTRUCTION)
        with m.Elif(beyond):
            m.d.sync += code.eq(ErrorCode.ROW_RANGE)
        with m.If(fails | halted):
            m.d.sync += [halted.eq(1), moving.eq(0)]

    def _pad_word(self, m: Module, value: Value, memory: Memory) -> Value:
        """A bus word filled with a pad value, in the memory form of a scratchpad's elements."""
        bits = scratchpad(self._variant, memory).memory_bits
        element = Signal(bits, name=f"pad_of_{memory.name.lower()}")
        m.d.comb += element.eq(value.as_signed())
        return Cat([element] * (self._variant.bus.data_bits // bits))
