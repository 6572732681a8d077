"""The ALU's issue point: where a step waits for its rows, and its groups start.

Input: decoded steps, banks that are closed, and whether the interlock stops. Output: reads of
accumulator rows; one group per cycle.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data

from daedal.hw.alu.alu_step import decode
from daedal.hw.alu.interlock import Interlock
from daedal.hw.alu.result_writer import result_meta_layout
from daedal.hw.family import Platform
from daedal.hw.issue.sequencer import Sequencer
from daedal.hw.memory.accumulators import bank_of
from daedal.hw.primitives.replicated import Replicated
from daedal.isa.registers import ErrorCode
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.variant import Variant

__all__ = ["IssuePoint"]

_START = data.StructLayout(dict.fromkeys(("waits", "fire", "work", "final", "requantize"), 1))


class IssuePoint:
    """Reads a step's rows and starts its groups; the logic is added to the ALU's own module.

    A step goes from the decoder to the issue point, or to `parked` (a skid register) if that is
    occupied: the sequencer's ready is a register. All inputs of the decision to start a group are
    registers, too: its outputs have long routes.

    Parameters
    ----------
    m : module to add to. platform : of the elaboration.
    alu : its ports `alu_read`, `alu_read2`, `alu_wants`, `alu_waits`, `work` and `error` are driven
        here; `read_closed` is an input.

    Attributes
    ----------
    start : flags of the group that starts. `waits`: there is a step at the issue point or before
        it. `fire`: a group starts. `final`: it is the step's last.
    group : its number in the step.
    step : the step at the issue point.
    """

    def __init__(
        self,
        m: Module,
        platform: Platform,
        *,
        variant: Variant,
        alu: Any,
        sequencer: Sequencer,
        interlock: Interlock,
    ) -> None:
        self._m, self._variant, self._alu = m, variant, alu
        self._sequencer, self._interlock = sequencer, interlock
        self.start = Signal(_START, name="start")
        self.group = Signal(result_meta_layout(variant)["group"].width, name="group")
        self._is_step, self._is_parked = Signal(), Signal(name="is_parked")
        self._follows, self._take, self._first = Signal(), Signal(), Signal(name="first")
        self._parks = Signal(name="parks")
        self._moves = Replicated(m, platform, ~self._parks, name="moves")
        decoder_moves = self._moves.copy_for("decoder")
        self._decoded = decode(m, variant, sequencer.steps, interlock, decoder_moves)
        before = self._decoded.step
        self.step = Signal.like(before, name="step", reset_less=True)
        self._parked = Signal.like(before, name="parked", reset_less=True)
        self._following = Signal.like(before, name="following")
        # Rows that the step at the issue point still has to read.
        self._needs_src, self._needs_dst = Signal(), Signal(name="needs_dst")
        self._fires = Signal(name="fires")  # `start.fire` for the issue point itself
        self._last_group = Signal(name="last_group")
        # A group starts if it may, and neither its source nor its destination row is in a closed
        # bank (`_starts`).
        self._flags_next = Signal(), Signal(), Signal(name="dst_blocks_next")
        self._flags = Replicated(
            m, platform, Cat(self._flags_next), name="may_start", reset_less=False
        )
        self._read(self._flags.copy_for("reads"))
        self._start_groups()
        self._let_steps_move()
        self._decide()
        self._step_on()
        self._report()

    def _read(self, flags: Value) -> None:
        """Status of the issue point, and the reads of the step's rows."""
        alu, start, step = self._alu, self.start, self.step
        may_start, src_blocks, dst_blocks = flags
        one_bank = step.same_bank & self._needs_src
        self._m.d.comb += [
            start.waits.eq(
                self._decoded.comes | self._decoded.some | self._is_parked | self._is_step
            ),
            start.work.eq(step.work),
            start.requantize.eq(step.requantize),
            start.final.eq(self._last_group),
            alu.alu_read.payload.eq(step.src),
            alu.alu_read.valid.eq(may_start & self._needs_src & ~src_blocks),
            alu.alu_read2.payload.eq(step.dst),
            alu.alu_read2.valid.eq(may_start & self._needs_dst & ~dst_blocks),
            alu.alu_wants.eq(Cat(self._needs_src, self._needs_dst)),
            alu.alu_waits[0].eq(may_start & src_blocks),
            alu.alu_waits[1].eq(may_start & dst_blocks & ~one_bank),
        ]

    def _start_groups(self) -> None:
        """Start a group where the flags say so; each reader has its own copy of them."""
        self._m.d.comb += [
            self._fires.eq(_starts(self._flags.copy_for("issue"))),
            self.start.fire.eq(_starts(self._flags.copy_for("pipeline"))),
            self._take.eq(~self._is_step | (self._fires & self.start.final)),
        ]

    def _let_steps_move(self) -> None:
        """The step that follows, and the flow between sequencer, interlock and issue point."""
        decoded, first, is_parked = self._decoded, self._first, self._is_parked
        self._m.d.comb += [
            self._following.eq(Mux(is_parked, self._parked, decoded.step)),
            self._follows.eq(is_parked | decoded.some),
            self._parks.eq(~self._take & (is_parked | decoded.some)),
            self._sequencer.steps.ready.eq(self._moves.copy_for("sequencer")),
            self._interlock.parked.eq(is_parked),
            self._interlock.next.eq(self._take),
            self._interlock.enter.eq(_starts(self._flags.copy_for("interlock"))),
            self._alu.work.eq(self.start.fire & self.step.work & first),
            first.eq(self.group == 0),
        ]

    def _decide(self) -> None:
        """Whether a group may start in the next cycle, and which of its rows are blocked."""
        alu, following, take = self._alu, self._following, self._take
        needs_src, needs_dst = self._needs_next()
        shut_next = self._shut_out(following, needs_src, needs_dst)
        shut_still = self._shut_out(
            self.step,
            self._needs_src & ~alu.alu_read.valid,
            self._needs_dst & ~alu.alu_read2.valid,
        )
        may_start_next, src_blocks_next, dst_blocks_next = self._flags_next
        self._m.d.comb += [
            may_start_next.eq(Mux(take, self._follows, self._is_step) & ~self._interlock.stops),
            src_blocks_next.eq(Mux(take, shut_next[0], shut_still[0])),
            dst_blocks_next.eq(Mux(take, shut_next[1], shut_still[1])),
        ]

    def _step_on(self) -> None:
        """Registers: rows that are read, groups that started, the next step."""
        m, group = self._m, self.group
        groups = Signal.like(group, name="groups", reset_less=True)
        with m.If(self._alu.alu_read.valid):
            m.d.sync += self._needs_src.eq(0)
        with m.If(self._alu.alu_read2.valid):
            m.d.sync += self._needs_dst.eq(0)
        with m.If(self._fires):
            m.d.sync += [group.eq(group + 1), self._last_group.eq(group + 1 == groups)]
        m.d.sync += self._is_parked.eq(self._parks)
        with m.If(~self._is_parked):
            m.d.sync += self._parked.eq(self._decoded.step)
        with m.If(self._take):
            last = self._number_of_last_group(self._following)
            needs_src, needs_dst = self._needs_next()
            m.d.sync += [
                self._is_step.eq(self._follows),
                self.step.eq(self._following),
                group.eq(0),
                groups.eq(last),
                self._last_group.eq(last == 0),
                self._needs_src.eq(needs_src),
                self._needs_dst.eq(needs_dst),
            ]

    def _report(self) -> None:
        """Errors of the step, when it starts."""
        step, error = self.step, self._alu.error
        self._m.d.sync += [
            error.valid.eq(self.start.fire & (step.illegal | step.beyond)),
            error.code.eq(Mux(step.illegal, ErrorCode.ILLEGAL_INSTRUCTION, ErrorCode.ROW_RANGE)),
            error.index.eq(step.retire.index),
        ]

    def _needs_next(self) -> tuple[Value, Value]:
        """Whether the step that follows reads rows: (src, dst)."""
        follows, following = self._follows, self._following
        return follows & following.reads_src, follows & following.reads_dst

    def _shut_out(self, step: Any, needs_src: Value, needs_dst: Value) -> tuple[Value, Value]:
        """Whether the rows that a step still needs are blocked in the next cycle: (src, dst).

        Two rows of one bank are read one after the other.
        """
        shut_src = needs_src & ~self._open(step.src)
        shut_dst = needs_dst & (~self._open(step.dst) | (step.same_bank & needs_src))
        return shut_src, shut_dst

    def _open(self, row: Value) -> Value:
        """Whether a row may be read in the next cycle."""
        bits = scratchpad(self._variant, Memory.ACC).index_bits
        return ~self._alu.read_closed.bit_select(bank_of(self._variant, row[:bits]), 1)

    def _number_of_last_group(self, step: Any) -> Value:
        """Number of the last group of a step; a step without work has a single group."""
        units, vector = self._variant.units, scratchpad(self._variant, Memory.ACC).elements
        ordinary, requantize = (
            vector // lanes - 1 for lanes in (units.alu_lanes, units.requantize_lanes)
        )
        return Mux(step.work, Mux(step.requantize, requantize, ordinary), 0)


def _starts(flags: Value) -> Value:
    """Whether a group starts: it may, and neither of its rows is in a closed bank."""
    return flags[0] & ~flags[1] & ~flags[2]
