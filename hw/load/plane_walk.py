"""LOAD's address generators over padded planes: a walk over data words, a walk over rows of pad.

Input: a LOAD as `data_walk_layout` or `pad_walk_layout`. Output: positions, in registers. The two
walks are independent, so pads may be written ahead of the data of their instruction or in parallel
with it. Each walk computes one or two positions ahead of its output, so that all flags of a
position are registers and no comparison lies between a position and what it controls.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.contracts import at_most_one, contract
from daedal.hw.family import Platform
from daedal.hw.parts.countdown import Countdown
from daedal.isa.scratchpad import scratchpad
from daedal.isa.table import LoadMemory, Opcode, instruction_layout
from daedal.isa.transfer import memory_beats
from daedal.isa.variant import Variant

__all__ = ["DataWalk", "PadWalk", "data_walk_layout", "pad_walk_layout"]


def _lines_layout(variant: Variant) -> dict[str, int]:
    """Lines of `blocks` planes: `top` without data, `rows` with it, `bottom` without.

    `has_top` and `has_bottom`: there are any. Without `has_data`, all lines of a plane count as
    `top`.
    """
    fields = instruction_layout(variant, Opcode.LOAD)
    return {
        "blocks": fields["blocks"].width,
        "top": _position_bits(variant),
        "rows": fields["rows"].width,
        "bottom": fields["pad_bottom"].width,
        "has_data": 1,
        "has_top": 1,
        "has_bottom": 1,
    }


def _position_bits(variant: Variant) -> int:
    """Bits of a plane's height or width: the sum of two pads and a count, carries included."""
    fields = instruction_layout(variant, Opcode.LOAD)
    return max(fields["cols"].width, fields["pad_top"].width + 1) + 1


def data_walk_layout(variant: Variant) -> data.StructLayout:
    """The data of a LOAD: `lines`, of which each with data has `cols` scratchpad rows.

    `first` is the scratchpad row of the first line's first column of data; `width` is the distance
    from line to line, `to_next` that from the last data of a line to the first of the next.
    """
    fields = instruction_layout(variant, Opcode.LOAD)
    return data.StructLayout(
        {
            "memory": fields["memory"].width,
            "lines": data.StructLayout(_lines_layout(variant)),
            "first": max(fields["row"].width, fields["pad_left"].width) + 1,
            "cols": fields["cols"].width,
            "width": _position_bits(variant),
            "to_next": fields["pad_left"].width + 2,
        }
    )


def pad_walk_layout(variant: Variant) -> data.StructLayout:
    """The pads of a LOAD, if it `has_pads`: `width` of them in a line without data.

    A line with data has `left` pads before the data and `right` after it. `first` is the scratchpad
    row of the first line's first column.
    """
    fields = instruction_layout(variant, Opcode.LOAD)
    return data.StructLayout(
        {
            "memory": fields["memory"].width,
            "lines": data.StructLayout(_lines_layout(variant)),
            "first": fields["row"].width,
            "has_pads": 1,
            "cols": fields["cols"].width,
            "width": _position_bits(variant),
            "left": fields["pad_left"].width,
            "right": fields["pad_right"].width,
            "has_left": 1,
            "has_right": 1,
        }
    )


class _Walk(wiring.Component):
    """Common part of both walks: the current job, and the position one ahead of the output.

    Members
    -------
    job : ``In(stream of LOADs)``
    step : ``In(1)``
        The output position is done: go to the next. The last one stays until `over`.
    over : ``In(1)``
        The instruction is over: go to the first position of the next.
    valid : there is a position.
    writes : the position is to be written. skips : there is nothing to write at it, but it takes a
    step.
    done : all positions of the instruction are done. beyond : the position is past the end of its
    memory.
    last : the position is the last one of the instruction.
    ends : `writes` and `last`.
    passed : `done`, or the position `skips` and is the `last`.
    row : scratchpad row. All of them are registers.
    """

    _POSITION = dict.fromkeys(
        ("valid", "writes", "skips", "done", "beyond", "last", "ends", "passed"), 1
    )

    def __init__(self, variant: Variant, layout: data.StructLayout, **more: int) -> None:
        self._variant = variant
        rows = instruction_layout(variant, Opcode.LOAD)["row"].width
        super().__init__(
            {
                "job": In(stream.Signature(layout)),
                "step": In(1),
                "over": In(1),
                **{name: Out(width) for name, width in (self._POSITION | more).items()},
                "row": Out(rows),
            }
        )
        self._active = Signal()
        self._held = Signal(layout, reset_less=True)
        # Wide enough for a step from any row to past the end of the memory.
        self._row = Signal(max(rows, _position_bits(variant)) + 1, reset_less=True)
        self._left = Signal(reset_less=True)

    def _show(
        self,
        m: Module,
        platform: Platform,
        nothing: Value,
        is_row: Value,
        last: Value,
        **more: Signal,
    ) -> tuple[Value, Value]:
        """Output the current position when its turn comes; return whether to load and to advance.

        A skid register lets the walk advance without waiting for `step`, so `advance` is a
        register.
        """
        outside = self._left | self._is_outside(m)
        more_bits = {name: len(value) for name, value in more.items()}
        position = Signal(data.StructLayout(self._POSITION | {"row": len(self.row)} | more_bits))
        spare = Signal.like(position, reset_less=True)
        full = Signal()
        m.d.comb += [
            position.valid.eq(self._active),
            position.writes.eq(self._active & ~nothing & is_row & ~outside),
            position.skips.eq(self._active & ~nothing & ~is_row),
            position.done.eq(self._active & nothing),
            position.beyond.eq(self._active & ~nothing & is_row & outside),
            position.last.eq(last),
            position.ends.eq(position.writes & last),
            position.passed.eq(position.done | (position.skips & last)),
            position.row.eq(self._row),
            *(position[name].eq(value) for name, value in more.items()),
        ]
        leaves = ~self.valid | (self.step & ~self.last) | self.over
        m.d.sync += full.eq(~leaves & (full | self._active))
        with m.If(~full):
            m.d.sync += spare.eq(position)
        with m.If(leaves):
            for name in position.shape().members:
                m.d.sync += getattr(self, name).eq(Mux(full, spare[name], position[name]))
        with m.Elif(self.step):
            m.d.sync += [
                *(one.eq(0) for one in (self.writes, self.skips, self.ends)),
                *(one.eq(1) for one in (self.done, self.passed)),
            ]

        kinds = Cat(self.writes, self.skips, self.done, self.beyond)
        for holds, rule in (
            (~self.step | self.valid, "only a position that is there must be stepped over"),
            (~self.over | (self.valid & self.last), "an instruction must end with its last one"),
            (at_most_one(kinds), "a position must be of one kind"),
            (self.valid == kinds.any(), "a position must be of some kind"),
        ):
            contract(m, platform, holds, rule)

        # The job queue advances one cycle later: no combinational path from here into it.
        taken, loads = Signal(), Signal()
        m.d.comb += [loads.eq(~self._active | (~full & last)), self.job.ready.eq(taken)]
        m.d.sync += taken.eq(loads & self.job.valid & ~taken)
        with m.If(loads):
            m.d.sync += [
                self._active.eq(self.job.valid & ~taken),
                self._held.eq(self.job.payload),
            ]
        return loads, ~full

    def _count_rows(self, m: Module, distance: Value) -> None:
        """Step to the row of the next position; once past the end of the memory, stay past it."""
        m.d.sync += [
            self._row.eq(self._row + distance),
            self._left.eq(self._left | self._is_outside(m)),
        ]

    def _is_outside(self, m: Module) -> Value:
        """Whether the row ahead lies past the end of its scratchpad."""
        outside = Signal(name="row_outside")
        with m.Switch(self._held.memory):
            for memory in LoadMemory.of(self._variant):
                depth = scratchpad(self._variant, memory.memory).depth_rows
                with m.Case(memory):
                    m.d.comb += outside.eq(self._row[depth.bit_length() - 1 :].any())
        return outside


class DataWalk(_Walk):
    """Bus words of data, in order; a line of pads above or below the data costs one step.

    Members
    -------
    beat : index of the word in its row; a register.
    """

    def __init__(self, *, variant: Variant) -> None:
        most = max(memory_beats(variant, memory) for memory in LoadMemory.of(variant))
        super().__init__(variant, data_walk_layout(variant), beat=max(1, (most - 1).bit_length()))

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        job, incoming = self._held, self.job.payload
        lines = _Lines(m, job.lines)
        cols = Countdown(len(job.cols), name="cols")
        words = Countdown(len(self.beat) + 1, name="words")
        beat = Signal.like(self.beat, reset_less=True)
        nothing = ~job.lines.has_data
        last = nothing | (lines.last_data & cols.last & words.last)
        loads, advances = self._show(m, platform, nothing, lines.has_data, last, beat=beat)
        with m.If(loads):
            m.d.sync += [self._row.eq(incoming.first), self._left.eq(0), beat.eq(0)]
            lines.load(m, incoming.lines)
            cols.load(m, incoming.cols)
            self._load_words(m, words, incoming.memory)
        with m.Elif(advances & lines.has_data & ~words.last):
            m.d.sync += beat.eq(beat + 1)
            words.step(m)
        with m.Elif(advances):
            along = Mux(cols.last, job.to_next, 1)
            self._count_rows(m, Mux(lines.has_data, along, job.width))
            m.d.sync += beat.eq(0)
            self._load_words(m, words, job.memory)
            with m.If(~lines.has_data | cols.last):
                cols.load(m, job.cols)
                lines.step(m)
            with m.Else():
                cols.step(m)
        return m

    def _load_words(self, m: Module, words: Countdown, memory: Value) -> None:
        """Start counting the words of a row of `memory`."""
        with m.Switch(memory):
            for kind in LoadMemory.of(self._variant):
                with m.Case(kind):
                    words.load(m, Const(memory_beats(self._variant, kind), len(self.beat) + 1))


class PadWalk(_Walk):
    """Rows of pad, in order; the data of a line costs one step."""

    def __init__(self, *, variant: Variant) -> None:
        super().__init__(variant, pad_walk_layout(variant))

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        job, incoming = self._held, self.job.payload
        lines = _Lines(m, job.lines)
        left = Countdown(len(job.width), name="pads")
        # The position is the data of a line, lies after it, is the last position of its line.
        at_data, behind, line_end = (Signal(reset_less=True) for _ in range(3))
        nothing = ~job.has_pads
        last = nothing | (line_end & lines.last)
        loads, advances = self._show(m, platform, nothing, ~at_data, last)

        def begin_line(fields: data.View, has_data: Value) -> None:
            m.d.sync += [at_data.eq(has_data & ~fields.has_left), behind.eq(0)]
            with m.If(has_data):
                left.load(m, fields.left)
                m.d.sync += line_end.eq(~fields.has_left & ~fields.has_right)
            with m.Else():
                left.load(m, fields.width)
                m.d.sync += line_end.eq(fields.width == 1)

        with m.If(loads):
            m.d.sync += [self._row.eq(incoming.first), self._left.eq(0)]
            lines.load(m, incoming.lines)
            begin_line(incoming, incoming.lines.has_data & ~incoming.lines.has_top)
        with m.Elif(advances):
            self._count_rows(m, Mux(at_data, job.cols, 1))
            before = lines.has_data & ~behind
            with m.If(line_end):
                begin_line(job, lines.next_has_data)
                lines.step(m)
            with m.Elif(at_data):
                m.d.sync += [at_data.eq(0), behind.eq(1), line_end.eq(job.right == 1)]
                left.load(m, job.right)
            with m.Else():
                m.d.sync += [
                    at_data.eq(before & left.last),
                    line_end.eq(Mux(before, left.last & ~job.has_right, left.last_but_one)),
                ]
                left.step(m)
        return m


class _Lines:
    """Iterates over the lines of all planes of a job (`_lines_layout`).

    Attributes
    ----------
    has_data : register: the current line has data.
    last : the current line is the last one.
    last_data : register: it is the last one with data.
    next_has_data : the next line has data.
    """

    def __init__(self, m: Module, job: data.View) -> None:
        self._job = job
        self._lines = Countdown(max(len(job.top), len(job.rows)), name="lines")
        self._blocks = Countdown(len(job.blocks), name="blocks")
        self._below = Signal(name="below_data", reset_less=True)
        self._plane_end = Signal(name="plane_end", reset_less=True)
        self.has_data = Signal(name="line_has_data", reset_less=True)
        self.last = self._plane_end & self._blocks.last
        self.last_data = Signal(name="last_line_of_data", reset_less=True)
        # Within a plane, lines of pads and lines of data alternate: where one part ends, the other
        # begins.
        self.next_has_data = Mux(
            self._plane_end, job.has_data & ~job.has_top, self.has_data ^ self._lines.last
        )

    def load(self, m: Module, job: data.View) -> None:
        """Start at the first line of a job."""
        self._begin_plane(m, job, job.blocks == 1)
        self._blocks.load(m, job.blocks)

    def step(self, m: Module) -> None:
        """Go to the next line."""
        job, lines, blocks = self._job, self._lines, self._blocks
        m.d.sync += self.has_data.eq(self.next_has_data)
        with m.If(self._plane_end):
            self._begin_plane(m, job, blocks.last_but_one)
            blocks.step(m)
        with m.Elif(~lines.last):
            last_part = self._below | ~job.has_data | (self.has_data & ~job.has_bottom)
            m.d.sync += [
                self._plane_end.eq(lines.last_but_one & last_part),
                self.last_data.eq(lines.last_but_one & self.has_data & blocks.last),
            ]
            lines.step(m)
        with m.Elif(self.has_data):
            m.d.sync += [
                self._below.eq(1),
                self._plane_end.eq(job.bottom == 1),
                self.last_data.eq(0),
            ]
            lines.load(m, job.bottom)
        with m.Else():
            self._begin_data(m, job, blocks.last)

    def _begin_plane(self, m: Module, job: data.View, last_block: Value) -> None:
        m.d.sync += [self._below.eq(0), self.has_data.eq(job.has_data & ~job.has_top)]
        with m.If(job.has_top):
            self._lines.load(m, job.top)
            m.d.sync += [
                self._plane_end.eq((job.top == 1) & ~job.has_data),
                self.last_data.eq(0),
            ]
        with m.Else():
            self._begin_data(m, job, last_block)

    def _begin_data(self, m: Module, job: data.View, last_block: Value) -> None:
        self._lines.load(m, job.rows)
        one = job.rows == 1
        m.d.sync += [
            self._plane_end.eq(one & ~job.has_bottom),
            self.last_data.eq(one & last_block),
        ]
