"""The half of LOAD that writes: words in, row by row with pads, onto the fill port."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.interfaces import error_signature, fill_signature, read_word
from daedal.hw.layouts import retire_layout
from daedal.isa.registers import ErrorCode
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import LoadMemory, Opcode, instruction_layout
from daedal.isa.variant import Variant

__all__ = ["LoadFiller", "fill_job_layout", "memory_beats"]


def memory_beats(variant: Variant, memory: LoadMemory) -> int:
    """Bus words of a scratchpad row in memory; always a power of two."""
    pad = scratchpad(variant, memory.memory)
    if memory is LoadMemory.ACC_NARROW:
        return pad.elements * variant.array.input_bits // variant.bus.data_bits
    return pad.row_beats(variant)


def fill_job_layout(variant: Variant) -> data.StructLayout:
    """One LOAD, ready to be walked: positions run over planes of (last_y + 1) x (last_x + 1) rows.

    Data lies at ``begin_y <= y < end_y`` and ``begin_x <= x < end_x``, if there is any
    (`has_data`); the rest is pad. An `empty` job has no position at all.
    """
    fields = instruction_layout(variant, Opcode.LOAD)
    count = fields["cols"].width
    pad = fields["pad_top"].width
    # Two pads and a count: one bit more than the longer of them, and one for the sum's carry.
    position = max(count, pad + 1) + 1
    return data.StructLayout(
        {
            "memory": fields["memory"].width,
            "row": fields["row"].width,
            "empty": 1,
            "illegal": 1,
            "has_data": 1,
            "last_block": fields["blocks"].width,
            "last_y": position,
            "last_x": position,
            "begin_y": pad,
            "begin_x": pad,
            "end_y": position,
            "end_x": position,
            "pad_value": fields["pad_value"].width,
            "retire": retire_layout(),
        }
    )


class LoadFiller(wiring.Component):
    """Walk over jobs, one bus word or one pad row per cycle.

    Parameters
    ----------
    variant
        The machine.

    Members
    -------
    job : ``In(stream.Signature(fill_job_layout(variant)))``
    data : ``In(read_word(variant))``
    fill : ``Out(fill_signature(variant))``, straight from registers.
    retire, error : as in `interfaces.unit_signature`
    work, padding : ``Out(1)``
        A word, or a pad row, was taken on its way to `fill` in this cycle.
    active : ``Out(1)``
        A job is at hand.
    draining : ``Out(1)``
        The last of a job is still on its way.
    """

    def __init__(self, *, variant: Variant) -> None:
        self._variant = variant
        super().__init__(
            {
                "job": In(stream.Signature(fill_job_layout(variant))),
                "data": In(read_word(variant)),
                "fill": Out(fill_signature(variant)),
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
        word = self.data.payload
        job = Signal.like(self.job.payload, reset_less=True)
        active = Signal()
        halted = Signal()

        row = Signal(len(job.row) + 1, reset_less=True)  # one bit more than any scratchpad has
        beat = Signal.like(self.fill.payload.beat, reset_less=True)
        last = Signal()  # of the job
        row_done = Signal()  # with this step
        step = Signal()

        m.submodules.walk = walk = _PlaneWalk(variant=self._variant)
        m.d.comb += [walk.job.eq(self.job.payload), walk.step.eq(step & row_done)]
        in_data = walk.in_data

        last_beat = Signal.like(beat, reset_less=True)
        beyond_mask = Signal.like(row, reset_less=True)
        pad_word = Signal.like(word.data, reset_less=True)

        # What stands in the way, in the order in which it is reported.
        beyond = (row & beyond_mask) != 0
        free = ~self.fill.valid | self.fill.ready
        ready = active & ~halted & free
        good = ~job.illegal & ~beyond
        m.d.comb += [
            row_done.eq(~in_data | (beat == last_beat)),
            last.eq(job.empty | (row_done & walk.last)),
            step.eq(ready & ~job.illegal & (job.empty | (~beyond & (~in_data | self.data.valid)))),
            self.data.ready.eq(ready & good & ~job.empty & in_data),
            self.work.eq(self.data.ready & self.data.valid),
            self.padding.eq(ready & good & ~job.empty & ~in_data),
            self.active.eq(active),
        ]

        ending = Signal()
        ending_as = Signal(retire_layout(), reset_less=True)
        m.d.comb += self.draining.eq(self.fill.valid | ending | self.retire.valid)
        with m.If(free):
            m.d.sync += [
                self.fill.valid.eq(step & ~job.empty),
                self.fill.payload.memory.eq(
                    Mux(
                        ~in_data & (job.memory == LoadMemory.ACC_NARROW), LoadMemory.ACC, job.memory
                    )
                ),
                self.fill.payload.row.eq(row),
                self.fill.payload.beat.eq(beat),
                self.fill.payload.pad.eq(~in_data),
                self.fill.payload.data.eq(Mux(in_data, word.data, pad_word)),
                # An instruction with a bad word never retires.
                ending.eq(step & last & ~(in_data & ~job.empty & word.response[1])),
                ending_as.eq(job.retire),
            ]
        m.d.sync += [self.retire.valid.eq(ending & free), self.retire.payload.eq(ending_as)]

        with m.If(step):
            m.d.sync += beat.eq(beat + 1)
            with m.If(row_done):
                m.d.sync += [beat.eq(0), row.eq(row + 1)]

        self._report(m, ready, job, beyond, halted)

        m.d.comb += self.job.ready.eq(~active | (step & last))
        with m.If(self.job.ready):
            m.d.sync += [
                active.eq(self.job.valid),
                job.eq(self.job.payload),
                row.eq(self.job.payload.row),
                beat.eq(0),
                pad_word.eq(self._pad_word(m)),
            ]
            m.d.comb += walk.start.eq(1)
            with m.Switch(self.job.payload.memory):
                for memory in LoadMemory:
                    depth = scratchpad(self._variant, memory.memory).depth_rows
                    with m.Case(memory):
                        m.d.sync += [
                            last_beat.eq(memory_beats(self._variant, memory) - 1),
                            beyond_mask.eq(~(depth - 1)),
                        ]
        return m

    def _report(
        self, m: Module, ready: Value, job: data.View, beyond: Value, halted: Signal
    ) -> None:
        """Raise the error pulse, and stop for good."""
        response = self.data.payload.response
        m.d.sync += self.error.valid.eq(0)
        with m.If(ready & (job.illegal | (~job.empty & beyond) | (self.work & response[1]))):
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


class _PlaneWalk(wiring.Component):
    """Where the filler is in its planes: on data or on pad, and whether at the very end."""

    def __init__(self, *, variant: Variant) -> None:
        super().__init__(
            {
                "job": In(fill_job_layout(variant)),
                "start": In(1),
                "step": In(1),
                "in_data": Out(1),
                "last": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        job = Signal.like(self.job, reset_less=True)
        x = Signal.like(job.last_x, reset_less=True)
        y = Signal.like(job.last_y, reset_less=True)
        block = Signal.like(job.last_block, reset_less=True)
        # Whether x and y are in their ranges of data, kept as flags: no magnitude comparison.
        in_x, in_y = Signal(reset_less=True), Signal(reset_less=True)

        x_end, y_end = x == job.last_x, y == job.last_y
        next_x, next_y = x + 1, y + 1
        m.d.comb += [
            self.in_data.eq(in_x & in_y),
            self.last.eq(x_end & y_end & (block == job.last_block)),
        ]
        with m.If(self.step):
            m.d.sync += [
                x.eq(next_x),
                in_x.eq((in_x | (next_x == job.begin_x)) & (next_x != job.end_x)),
            ]
            with m.If(x_end):
                m.d.sync += [
                    x.eq(0),
                    in_x.eq(job.begin_x == 0),
                    y.eq(next_y),
                    in_y.eq(
                        job.has_data & (in_y | (next_y == job.begin_y)) & (next_y != job.end_y)
                    ),
                ]
                with m.If(y_end):
                    m.d.sync += [
                        y.eq(0),
                        in_y.eq(job.has_data & (job.begin_y == 0)),
                        block.eq(block + 1),
                    ]
        with m.If(self.start):
            m.d.sync += [
                job.eq(self.job),
                x.eq(0),
                y.eq(0),
                block.eq(0),
                in_x.eq(self.job.begin_x == 0),
                in_y.eq(self.job.has_data & (self.job.begin_y == 0)),
            ]
        return m
