"""The read half of STORE: scratchpad rows in order, cut into bus words."""

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.contracts import contract, require_at_elaboration
from daedal.hw.family import Platform
from daedal.hw.interfaces import scratchpad_read_signature
from daedal.hw.layouts import INDEX_BITS, row_bits
from daedal.hw.parts.countdown import Countdown
from daedal.hw.parts.small_fifo import SmallFifo
from daedal.hw.parts.tally import Tally
from daedal.hw.pipeline import delay, register
from daedal.isa.latencies import ACC_READ_CYCLES, STORE_ROWS, STORE_WORDS
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import Opcode, OutMemory, instruction_layout
from daedal.isa.variant import Variant

__all__ = ["RowReader", "store_job_layout"]

_ROUND_TRIP_CYCLES = ACC_READ_CYCLES + 4
"""Cycles from a read until its place is free again: the row, a register, the queue, two more."""


def store_job_layout(variant: Variant) -> data.StructLayout:
    """One STORE of at least one row: blocks x rows x cols of them, from `row` on.

    `beyond`: even row `row` is past the end of the scratchpad.
    """
    fields = instruction_layout(variant, Opcode.STORE)
    return data.StructLayout(
        {
            "memory": fields["memory"].width,
            "row": fields["row"].width,
            "beyond": 1,
            "blocks": fields["blocks"].width,
            "rows": fields["rows"].width,
            "cols": fields["cols"].width,
            "index": INDEX_BITS,
        }
    )


class RowReader(wiring.Component):
    """Read the rows of jobs and output them as bus words in memory form.

    A row is read only when there is room for it, so a scratchpad's data is never refused. OUT is
    read at one row per cycle; the accumulators, whose rows are several words, at one row every
    three cycles, because both request and grant are registered. Accumulators are sign-extended to
    their memory form here.

    Parameters
    ----------
    variant
        The machine.

    Members
    -------
    job : ``In(stream.Signature(store_job_layout(variant)))``
    out_read, acc_read, acc_data : as in `store.Store`
    data : ``Out(stream.Signature(variant.bus.data_bits))``
        From a `SmallFifo`.
    work : ``Out(1)``
        A word enters that FIFO in this cycle.
    active : ``Out(1)``
        Rows or words are still to enter that FIFO.
    beyond, index : ``Out(1)``, ``Out(INDEX_BITS)``
        The next row of the current job does not exist (`beyond` then stays set); that job's
        instruction.
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
                "work": Out(1),
                "active": Out(1),
                "beyond": Out(1),
                "index": Out(INDEX_BITS),
            }
        )

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        require_at_elaboration(
            STORE_ROWS >= _ROUND_TRIP_CYCLES,
            "rows of one word must pass without a gap: STORE_ROWS must cover _ROUND_TRIP_CYCLES of "
            "a read",
        )
        acc = scratchpad(self._variant, Memory.ACC)
        out = scratchpad(self._variant, Memory.OUT)
        row_layout = data.StructLayout({"from_acc": 1, "bits": acc.row_bits})
        m.submodules.rows = rows = SmallFifo(width=row_layout.size, depth=STORE_ROWS, trusts=True)
        holds = Signal()  # `word` holds a word for the output.
        self._walk(m, rows, holds)

        # Both memories have the same read latency; their rows go into a register.
        lands = ACC_READ_CYCLES
        out_lands = delay(m, self.out_read.enable, lands, name="out_lands", reset_less=False)
        landed = Signal(row_layout, reset_less=True)
        lands = register(m, out_lands | self.acc_data.valid, name="lands", reset_less=False)
        m.d.comb += [rows.w_data.eq(landed), rows.w_en.eq(lands)]
        both = out_lands & self.acc_data.valid
        contract(m, platform, ~both, "rows of one memory must land in a cycle")
        m.d.sync += [
            landed.from_acc.eq(self.acc_data.valid),
            landed.bits.eq(self.acc_data.data),
            landed.bits[: out.row_bits].eq(
                Mux(self.acc_data.valid, self.acc_data.data, self.out_read.data)
            ),
        ]
        self._cut(m, rows, row_layout(rows.r_data), holds)
        return m

    def _walk(self, m: Module, rows: SmallFifo, holds: Value) -> None:
        """Read the rows of jobs one after another, as long as there is room."""
        active = Signal()
        job = Signal.like(self.job.payload, reset_less=True)
        row = Signal(len(job.row), reset_less=True)
        cols = Countdown(len(job.cols), name="cols")
        lines = Countdown(len(job.rows), name="lines")
        blocks = Countdown(len(job.blocks), name="blocks")
        m.submodules.places = places = Tally(most=STORE_ROWS)
        beyond = Signal(reset_less=True)
        # A row of the accumulators is requested; it was granted in the previous cycle. OUT needs no
        # grant.
        asks, granted = Signal(), Signal()

        from_acc = job.memory == OutMemory.ACC
        # reads_out: the next row exists and is in OUT; reads_now: there is also room for it.
        reads_out, reads_out_next, reads_now = Signal(), Signal(), Signal()
        popped = Signal()
        step = Signal()
        m.d.sync += [reads_out.eq(reads_out_next), reads_now.eq(reads_out_next & ~places.gets_full)]
        m.d.comb += [
            reads_out_next.eq(reads_out),
            self.out_read.row.eq(row),
            self.out_read.enable.eq(reads_now),
            self.acc_read.payload.eq(row),
            self.acc_read.valid.eq(asks),
            step.eq(self.out_read.enable | granted),
            places.up.eq(step),
            places.down.eq(popped),
            self.beyond.eq(active & beyond),
            self.index.eq(job.index),
            self.active.eq(active | ~places.none | holds),
        ]
        may_ask = active & from_acc & ~places.full & ~beyond
        m.d.sync += [
            popped.eq(rows.r_rdy & rows.r_en),
            granted.eq(asks & self.acc_read.ready),
            asks.eq(Mux(asks, ~self.acc_read.ready, may_ask & ~granted)),
        ]

        last = cols.last & lines.last & blocks.last
        with m.If(step):
            is_last = self._is_last(m, job.memory, row)
            m.d.sync += [
                row.eq(row + 1),
                beyond.eq(is_last),
            ]
            m.d.comb += reads_out_next.eq(reads_out & ~last & ~is_last)
            cols.step(m)
            with m.If(cols.last):
                cols.load(m, job.cols)
                lines.step(m)
                with m.If(lines.last):
                    lines.load(m, job.rows)
                    blocks.step(m)
        # The job queue advances one cycle later: no combinational path from here into it. The next
        # job is loaded one cycle after the last row, so the load does not depend on `step`.
        taken, taking = Signal(), Signal()
        m.d.comb += [taking.eq(~active & self.job.valid & ~taken), self.job.ready.eq(taken)]
        m.d.sync += taken.eq(taking)
        with m.If(step & last):
            m.d.sync += active.eq(0)
        memory = self.job.payload.memory
        with m.If(~active):
            m.d.sync += [
                active.eq(taking),
                job.eq(self.job.payload),
                row.eq(self.job.payload.row),
                beyond.eq(self.job.payload.beyond),
            ]
            m.d.comb += reads_out_next.eq(
                taking & ~self.job.payload.beyond & (memory != OutMemory.ACC)
            )
            for counter, total in ((cols, "cols"), (lines, "rows"), (blocks, "blocks")):
                counter.load(m, self.job.payload[total])

    def _is_last(self, m: Module, memory: Value, row: Value) -> Value:
        """Whether a row is the last one of its scratchpad."""
        result = Signal(name="last_of_scratchpad")
        with m.Switch(memory):
            for kind in OutMemory:
                with m.Case(kind):
                    depth = scratchpad(self._variant, kind.memory).depth_rows
                    m.d.comb += result.eq(row == depth - 1)
        return result

    def _cut(self, m: Module, rows: SmallFifo, head: data.View, holds: Signal) -> None:
        """Output the words of the oldest row, each through a register; then remove the row."""
        acc = scratchpad(self._variant, Memory.ACC)
        out = scratchpad(self._variant, Memory.OUT)
        width = self._variant.bus.data_bits
        acc_words, out_words = acc.row_beats(self._variant), out.row_beats(self._variant)

        in_memory = Signal(data.ArrayLayout(acc.memory_bits, acc.elements))
        for number in range(acc.elements):
            element = head.bits.word_select(number, acc.element_bits)
            m.d.comb += in_memory[number].eq(element.as_signed())
        number = Signal(range(max(acc_words, out_words)))
        is_last = number == Mux(head.from_acc, acc_words - 1, out_words - 1)
        words = (
            in_memory.as_value().word_select(number, width),
            head.bits.word_select(number, width),
        )
        word = Signal(width, reset_less=True)
        advance = Signal()
        # The master's `ready` is a long path: it ends in this FIFO.
        m.submodules.output = output = SmallFifo(width=width, depth=STORE_WORDS)
        # The words in the FIFO and the one in `word`.
        m.submodules.kept = kept = Tally(most=STORE_WORDS + 1)
        m.d.comb += [
            kept.up.eq(advance & rows.r_rdy),
            kept.down.eq(self.data.valid & self.data.ready),
            advance.eq(~kept.full),
            rows.r_en.eq(advance & is_last),
            output.w_en.eq(holds),
            output.w_data.eq(word),
            output.r_en.eq(self.data.ready),
            self.work.eq(holds & output.w_rdy),
            self.data.valid.eq(output.r_rdy),
            self.data.payload.eq(output.r_data),
        ]
        with m.If(advance):
            m.d.sync += [holds.eq(rows.r_rdy), word.eq(Mux(head.from_acc, *words))]
            with m.If(rows.r_rdy):
                m.d.sync += number.eq(Mux(is_last, 0, number + 1))
