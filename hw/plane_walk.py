"""Where LOAD is in its padded planes: one walk over the rows of data, one over the rows of pad.

Input: a LOAD as `load_job_layout`. Output: row numbers, straight from registers. The two walks
share nothing, so pads may be written ahead of or beside the data of their instruction.
"""

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.layouts import retire_layout
from daedal.isa.scratchpad import scratchpad
from daedal.isa.table import LoadMemory, Opcode, instruction_layout
from daedal.isa.variant import Variant

__all__ = ["DataWalk", "PadWalk", "load_job_layout"]


def load_job_layout(variant: Variant) -> data.StructLayout:
    """One LOAD, ready to be walked: positions run over planes of (last_y + 1) x (last_x + 1) rows.

    Data lies at ``begin_y <= y < end_y`` and ``begin_x <= x < end_x``, if there is any
    (`has_data`); the rest is pad (`has_pads`). `first_row` is the scratchpad row of position
    (0, 0), `first_column` that of (0, begin_x); `width` is last_x + 1 and `to_next` the distance
    from the last data of a line to the first of the next.
    """
    fields = instruction_layout(variant, Opcode.LOAD)
    count = fields["cols"].width
    pad = fields["pad_top"].width
    # Two pads and a count: one bit more than the longer of them, and one for the sum's carry.
    position = max(count, pad + 1) + 1
    return data.StructLayout(
        {
            "memory": fields["memory"].width,
            "first_row": fields["row"].width,
            "first_column": max(fields["row"].width, pad) + 1,
            "illegal": 1,
            "has_data": 1,
            "has_pads": 1,
            "has_right": 1,
            "last_block": fields["blocks"].width,
            "last_y": position,
            "last_x": position,
            "begin_y": pad,
            "begin_x": pad,
            "end_y": position,
            "end_x": position,
            "cols": count,
            "width": position,
            "to_next": pad + 1,
            "pad_value": fields["pad_value"].width,
            "retire": retire_layout(),
        }
    )


def _walk_members(variant: Variant) -> dict[str, wiring.Member]:
    job = load_job_layout(variant)
    return {
        "incoming": In(job),
        "start": In(1),
        "job": In(job),
        "step": In(1),
        "row": Out(job["first_row"].shape),
        "beyond": Out(1),
        "last": Out(1),
    }


class DataWalk(wiring.Component):
    """Rows of data, in order; a line of pads above or below them costs one step.

    Members
    -------
    incoming, start : the LOAD that becomes `job` with the next cycle.
    job : the LOAD at hand. step : leave the position.
    at_data : the position is data; otherwise it is a line that has none.
    row : scratchpad row of the data. beyond : it is none of the memory's rows.
    last : this is the last data of the instruction.
    """

    def __init__(self, *, variant: Variant) -> None:
        self._variant = variant
        super().__init__({**_walk_members(variant), "at_data": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.lines = lines = _Lines(variant=self._variant)
        left = Signal.like(self.job.cols, reset_less=True)
        line_end = ~lines.in_y | (left == 1)
        m.d.comb += [
            lines.incoming.eq(self.incoming),
            lines.start.eq(self.start),
            lines.job.eq(self.job),
            lines.step.eq(self.step & line_end),
            self.at_data.eq(lines.in_y),
            self.last.eq(lines.last_data & (left == 1)),
        ]
        with m.If(self.step):
            m.d.sync += left.eq(Mux(line_end, self.job.cols, left - 1))
        with m.If(self.start):
            m.d.sync += left.eq(self.incoming.cols)
        along = Mux(left == 1, self.job.to_next, 1)
        _count_rows(m, self, self.incoming.first_column, Mux(lines.in_y, along, self.job.width))
        return m


class PadWalk(wiring.Component):
    """Rows of pad, in order; the data of a line costs one step.

    Members
    -------
    incoming, start, job, step : as in `DataWalk`.
    at_data : the position is the first data of a line, to be skipped; otherwise it is pad.
    row : scratchpad row of the pad. beyond : it is none of the memory's rows.
    last : with this step the walk is over.
    """

    def __init__(self, *, variant: Variant) -> None:
        self._variant = variant
        super().__init__({**_walk_members(variant), "at_data": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        job = self.job
        m.submodules.lines = lines = _Lines(variant=self._variant)
        x = Signal.like(job.last_x, reset_less=True)
        # Whether x is in the range of data, kept as a flag: no magnitude comparison.
        in_x = Signal(reset_less=True)
        next_x = x + 1
        line_end = Mux(self.at_data, ~job.has_right, x == job.last_x)
        m.d.comb += [
            lines.incoming.eq(self.incoming),
            lines.start.eq(self.start),
            lines.job.eq(job),
            lines.step.eq(self.step & line_end),
            self.at_data.eq(in_x & lines.in_y),
            self.last.eq(line_end & lines.last),
        ]
        with m.If(self.step):
            m.d.sync += [
                x.eq(next_x),
                in_x.eq((in_x | (next_x == job.begin_x)) & (next_x != job.end_x)),
            ]
            with m.If(self.at_data):
                m.d.sync += [x.eq(job.end_x), in_x.eq(0)]
            with m.If(line_end):
                m.d.sync += [x.eq(0), in_x.eq(job.begin_x == 0)]
        with m.If(self.start):
            m.d.sync += [x.eq(0), in_x.eq(self.incoming.begin_x == 0)]
        _count_rows(m, self, self.incoming.first_row, Mux(self.at_data, job.cols, 1))
        return m


class _Lines(wiring.Component):
    """The lines of all planes: whether this one has data, and whether it is the last."""

    def __init__(self, *, variant: Variant) -> None:
        job = load_job_layout(variant)
        super().__init__(
            {
                "incoming": In(job),
                "start": In(1),
                "job": In(job),
                "step": In(1),
                "in_y": Out(1),
                "last": Out(1),
                "last_data": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        job = self.job
        y = Signal.like(job.last_y, reset_less=True)
        block = Signal.like(job.last_block, reset_less=True)
        in_y = Signal(reset_less=True)
        y_end, last_block = y == job.last_y, block == job.last_block
        next_y = y + 1
        m.d.comb += [
            self.in_y.eq(in_y),
            self.last.eq(y_end & last_block),
            self.last_data.eq((next_y == job.end_y) & last_block),
        ]
        with m.If(self.step):
            m.d.sync += [
                y.eq(next_y),
                in_y.eq(job.has_data & (in_y | (next_y == job.begin_y)) & (next_y != job.end_y)),
            ]
            with m.If(y_end):
                m.d.sync += [
                    y.eq(0),
                    in_y.eq(job.has_data & (job.begin_y == 0)),
                    block.eq(block + 1),
                ]
        with m.If(self.start):
            m.d.sync += [
                y.eq(0),
                block.eq(0),
                in_y.eq(self.incoming.has_data & (self.incoming.begin_y == 0)),
            ]
        return m


def _count_rows(m: Module, walk: DataWalk | PadWalk, first: Value, distance: Value) -> None:
    """Drive `row` and `beyond`: a walk that has left the memory never comes back by wrapping."""
    row = Signal.like(walk.row, reset_less=True)
    beyond = Signal(reset_less=True)
    following = row + distance
    m.d.comb += [walk.row.eq(row), walk.beyond.eq(beyond)]
    outside = Signal(name="following_outside")
    first_outside = Signal()
    for target, number, job in (
        (outside, following, walk.job),
        (first_outside, first, walk.incoming),
    ):
        with m.Switch(job.memory):
            for memory in LoadMemory:
                depth = scratchpad(walk._variant, memory.memory).depth_rows
                with m.Case(memory):
                    m.d.comb += target.eq(number[depth.bit_length() - 1 :].any())
    with m.If(walk.step):
        m.d.sync += [row.eq(following), beyond.eq(beyond | outside)]
    with m.If(walk.start):
        m.d.sync += [row.eq(first), beyond.eq(first_outside)]
