"""The half of STORE that reads: scratchpad rows in their order, cut into bus words."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from daedal.hw.interfaces import scratchpad_read_signature
from daedal.hw.layouts import INDEX_BITS, row_bits
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import Opcode, OutMemory, instruction_layout
from daedal.isa.variant import Variant

__all__ = ["RowReader", "store_job_layout"]

_ROWS = 8
"""Rows between a scratchpad's read port and the bus; a read's round trip takes 4 cycles."""


def store_job_layout(variant: Variant) -> data.StructLayout:
    """One STORE of at least one row: (last_block + 1) x (last_row + 1) x (last_col + 1) rows."""
    fields = instruction_layout(variant, Opcode.STORE)
    return data.StructLayout(
        {
            "memory": fields["memory"].width,
            "row": fields["row"].width,
            "last_block": fields["blocks"].width,
            "last_row": fields["rows"].width,
            "last_col": fields["cols"].width,
            "index": INDEX_BITS,
        }
    )


class RowReader(wiring.Component):
    """Read the rows of jobs and give them out as bus words in memory form.

    A row is read only when there is room for it, so what a scratchpad answers is always taken.
    Accumulators are sign-extended to their memory form here.

    Parameters
    ----------
    variant
        The machine.

    Members
    -------
    job : ``In(stream.Signature(store_job_layout(variant)))``
    out_read, acc_read, acc_data : as in `store.Store`
    data : ``Out(stream.Signature(variant.bus.data_bits))``, straight from registers.
    active : ``Out(1)``
        Rows or words are still to come.
    beyond, index : ``Out(1)``, ``Out(INDEX_BITS)``
        The next row of the job at hand does not exist (it stays so), and whose job that is.
    """

    def __init__(self, *, variant: Variant) -> None:
        self._variant = variant
        acc, out = scratchpad(variant, Memory.ACC), scratchpad(variant, Memory.OUT)
        super().__init__(
            {
                "job": In(stream.Signature(store_job_layout(variant))),
                "out_read": Out(scratchpad_read_signature(out.index_bits, out.row_bits)),
                "acc_read": Out(stream.Signature(row_bits(variant, Memory.ACC))),
                "acc_data": In(wiring.Signature({"valid": Out(1), "data": Out(acc.row_bits)})),
                "data": Out(stream.Signature(variant.bus.data_bits)),
                "active": Out(1),
                "beyond": Out(1),
                "index": Out(INDEX_BITS),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        acc = scratchpad(self._variant, Memory.ACC)
        out = scratchpad(self._variant, Memory.OUT)
        row_layout = data.StructLayout({"from_acc": 1, "bits": max(acc.row_bits, out.row_bits)})
        m.submodules.rows = rows = SyncFIFO(width=row_layout.size, depth=_ROWS)
        landed = Signal(row_layout)
        m.d.comb += rows.w_data.eq(landed)

        out_step, acc_step, reading = self._walk(m, rows)

        # Both memories answer exactly two cycles after the read.
        out_pending, out_lands = Signal(), Signal()
        m.d.sync += [out_pending.eq(out_step), out_lands.eq(out_pending)]
        m.d.comb += [
            rows.w_en.eq(out_lands | self.acc_data.valid),
            landed.from_acc.eq(self.acc_data.valid),
            landed.bits.eq(Mux(self.acc_data.valid, self.acc_data.data, self.out_read.data)),
        ]
        cutting = self._cut(m, rows, row_layout(rows.r_data))
        acc_pending = Signal(2)
        m.d.sync += acc_pending.eq(Cat(acc_step, acc_pending[0]))
        m.d.comb += self.active.eq(reading | out_pending | out_lands | acc_pending.any() | cutting)
        return m

    def _walk(self, m: Module, rows: SyncFIFO) -> tuple[Value, Value, Value]:
        """Go through the rows of jobs; return: reads OUT, reads ACC, has a job."""
        acc = scratchpad(self._variant, Memory.ACC)
        out = scratchpad(self._variant, Memory.OUT)
        active = Signal()
        job = Signal.like(self.job.payload, reset_less=True)
        row = Signal(len(job.row) + 1, reset_less=True)
        col = Signal.like(job.last_col, reset_less=True)
        line = Signal.like(job.last_row, reset_less=True)
        block = Signal.like(job.last_block, reset_less=True)
        room = Signal(range(_ROWS + 1), init=_ROWS)

        from_acc = job.memory == OutMemory.ACC
        beyond = Mux(from_acc, row >= acc.depth_rows, row >= out.depth_rows)
        may_read = active & (room != 0) & ~beyond
        step = Signal()
        m.d.comb += [
            self.out_read.row.eq(row),
            self.out_read.enable.eq(may_read & ~from_acc),
            self.acc_read.payload.eq(row),
            self.acc_read.valid.eq(may_read & from_acc),
            step.eq(may_read & (~from_acc | self.acc_read.ready)),
            self.beyond.eq(active & beyond),
            self.index.eq(job.index),
        ]
        m.d.sync += room.eq(room + (rows.r_rdy & rows.r_en) - step)

        col_end, line_end = col == job.last_col, line == job.last_row
        last = col_end & line_end & (block == job.last_block)
        with m.If(step):
            m.d.sync += [row.eq(row + 1), col.eq(col + 1)]
            with m.If(col_end):
                m.d.sync += [col.eq(0), line.eq(line + 1)]
                with m.If(line_end):
                    m.d.sync += [line.eq(0), block.eq(block + 1)]
        m.d.comb += self.job.ready.eq(~active | (step & last))
        with m.If(self.job.ready):
            m.d.sync += [
                active.eq(self.job.valid),
                job.eq(self.job.payload),
                row.eq(self.job.payload.row),
                col.eq(0),
                line.eq(0),
                block.eq(0),
            ]
        return self.out_read.enable, step & from_acc, active

    def _cut(self, m: Module, rows: SyncFIFO, head: data.View) -> Value:
        """Give out the words of the oldest row; return whether there are any."""
        acc = scratchpad(self._variant, Memory.ACC)
        out = scratchpad(self._variant, Memory.OUT)
        width = self._variant.bus.data_bits
        acc_beats, out_beats = acc.row_beats(self._variant), out.row_beats(self._variant)
        beat = Signal(range(max(acc_beats, out_beats)))

        extended = Signal(acc.elements * acc.memory_bits)
        elements = [
            head.bits[k * acc.element_bits : (k + 1) * acc.element_bits].as_signed()
            for k in range(acc.elements)
        ]
        wide = Signal(data.ArrayLayout(acc.memory_bits, acc.elements))
        m.d.comb += [wide[k].eq(element) for k, element in enumerate(elements)]
        m.d.comb += extended.eq(wide)

        word = Mux(
            head.from_acc,
            extended.word_select(beat[: (acc_beats - 1).bit_length()], width),
            head.bits[: out.row_bits].word_select(beat[: (out_beats - 1).bit_length()], width),
        )
        free = ~self.data.valid | self.data.ready
        last = beat == Mux(head.from_acc, acc_beats - 1, out_beats - 1)
        m.d.comb += rows.r_en.eq(free & last)
        with m.If(free):
            m.d.sync += [self.data.valid.eq(rows.r_rdy), self.data.payload.eq(word)]
            with m.If(rows.r_rdy):
                m.d.sync += beat.eq(Mux(last, 0, beat + 1))
        return rows.r_rdy | self.data.valid
