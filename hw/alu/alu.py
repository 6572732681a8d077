"""ALU: vector operations on accumulator rows, REQUANTIZE among them.

Input: ALU instructions, micro-ops from LOAD, rows of the accumulators and of PAR. Output: elements
of accumulator or output rows.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from daedal.hw.alu.alu_lanes import AluLanes
from daedal.hw.alu.hardware_lane import matches
from daedal.hw.alu.interlock import Interlock
from daedal.hw.alu.issue_point import IssuePoint
from daedal.hw.alu.lane_reductions import LaneReductions
from daedal.hw.alu.requantize import Requantizer
from daedal.hw.alu.result_writer import ResultWriter, result_meta_layout
from daedal.hw.contracts import checks_contracts, contract, require_at_elaboration
from daedal.hw.family import Platform
from daedal.hw.interfaces import (
    Activity,
    accumulator_ports,
    fill_signature,
    lookup_signature,
    out_write_signature,
    scratchpad_read_signature,
    unit_signature,
)
from daedal.hw.issue.sequencer import Sequencer
from daedal.hw.memory.scratchpad import read_shape
from daedal.hw.pipeline import delay, register
from daedal.hw.primitives.replicated import Replicated
from daedal.isa.latencies import (
    ACC_READ_CYCLES,
    ALU_OPERAND_CYCLES,
    LOOKUP_CYCLES,
    QUEUE_CYCLES,
    RAM_READ_CYCLES,
)
from daedal.isa.scratchpad import TABLE_ENTRY_BITS, Memory, scratchpad
from daedal.isa.table import Opcode, OutMemory
from daedal.isa.variant import Variant

__all__ = ["Alu", "ordinary_latency", "requantize_latency"]

_ACC_PORTS = (
    *("alu_read", "alu_data", "alu_read2", "alu_data2", "alu_write"),
    *("alu_wants", "alu_waits", "read_closed", "write_closed"),
)
_CONTROLS = (
    "operation",
    "use_immediate",
    "immediate",
    "destination",
    "saturate",
    "low",
    "high",
)
_PAR_LATE = ACC_READ_CYCLES - 2
"""Latency from the start of a group to the read of its parameters."""
_RING_SPARE = 3
"""Places of the ring in addition to those for the groups between issue and write."""


class Alu(wiring.Component):
    """A sequencer, an issue point, one fixed-latency pipeline for every operation, a write queue.

    A vector is processed in groups: alu_lanes elements per cycle, or requantize_lanes. A step is
    decoded and compared with the interlock's rows before it reaches the issue point. There the
    first group of a vector waits for its rows (both are read in one cycle if their banks differ),
    for the interlock (no row may be read while a result for it is in flight) and for room in the
    write queue; the other groups follow, one per cycle. Results are written in order.

    Members
    -------
    fill : micro-ops. par_read : slices of parameter rows. alu_* : the accumulators' ports of the
    same names. out_write : elements of output rows. lookup : (only with tables) results of
    REQUANTIZE to the tables, and what comes back. The rest is `unit_signature`.

    `needs_par`, `needs_tab`, for contracts only: what `par_read` or `lookup` reads will be used.
    """

    def __init__(self, *, variant: Variant) -> None:
        self._variant = variant
        ports = accumulator_ports(variant)
        super().__init__(
            {
                **unit_signature(variant, Opcode.ALU),
                "fill": In(fill_signature(variant)),
                "par_read": Out(scratchpad_read_signature(*read_shape(variant, Memory.PAR))),
                **{name: ports[name].flip() for name in _ACC_PORTS},
                "out_write": Out(out_write_signature(variant)),
                **({"lookup": Out(lookup_signature(variant))} if variant.memory.tables else {}),
            }
        )
        self.needs_par, self.needs_tab = Signal(), Signal()

    @property
    def _vector(self) -> int:
        return scratchpad(self._variant, Memory.ACC).elements

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        variant = self._variant
        several = variant.memory.tables > 1
        controls = (
            *_CONTROLS,
            *(("table",) if several else ()),
            *(("wide",) if variant.units.wide_requantize else ()),
        )
        m.submodules.sequencer = sequencer = Sequencer(
            variant=variant, opcode=Opcode.ALU, controls=controls
        )
        wiring.connect(m, wiring.flipped(self.issue), sequencer.issue)
        wiring.connect(m, wiring.flipped(self.fill), sequencer.fill)
        latency = ALU_OPERAND_CYCLES + max(ordinary_latency(variant), requantize_latency(variant))
        # One place for every group between issue and write sustains one group per cycle.
        depth = latency + QUEUE_CYCLES + _RING_SPARE
        _check_latencies(latency, depth)
        acc_bits = len(self.alu_read.payload)
        m.submodules.interlock = interlock = Interlock(row_bits=acc_bits, depth=depth)
        point = IssuePoint(
            m, platform, variant=variant, alu=self, sequencer=sequencer, interlock=interlock
        )
        start, group, step = point.start, point.group, point.step
        if checks_contracts(platform):
            needed = start.fire & step.work & step.requantize
            late = delay(m, needed, _PAR_LATE, name="needs_par", reset_less=False)
            m.d.comb += self.needs_par.eq(late)
            if variant.memory.tables:
                looks = start.fire & step.work & step.lookup
                to_tables = ALU_OPERAND_CYCLES + Requantizer.latency(variant)
                late = delay(m, looks, to_tables, name="needs_tab", reset_less=False)
                m.d.comb += self.needs_tab.eq(late)

        lanes = self._lanes(m, platform, start, group, step, latency)
        m.submodules.results = results = ResultWriter(
            variant=variant, lane_bits=len(lanes), depth=depth
        )
        meta = Signal(result_meta_layout(variant))
        m.d.comb += [
            meta.to_acc.eq(start.work & (step.control.destination == OutMemory.ACC)),
            meta.to_out.eq(start.work & (step.control.destination != OutMemory.ACC)),
            meta.requantize.eq(start.requantize),
            meta.row.eq(step.dst),
            meta.group.eq(group),
            meta.last.eq(start.final & step.last),
            meta.retire.eq(step.retire),
            results.valid.eq(delay(m, start.fire, latency, name="fire", reset_less=False)),
            results.meta.eq(delay(m, meta, latency, name="meta")),
            results.lanes.eq(lanes),
            results.write_closed.eq(self.write_closed),
            self.alu_waits[2].eq(results.waits),
            interlock.leave.eq(results.left),
        ]
        for name in ("alu_write", "out_write", "retire"):
            wiring.connect(m, getattr(results, name), wiring.flipped(getattr(self, name)))

        written = self.alu_write.payload.row
        meets = [p.valid & (p.payload == written) for p in (self.alu_read, self.alu_read2)]
        apart = ~(self.alu_write.valid & Cat(meets).any())
        contract(m, platform, apart, "a row must not be read while it is written")
        with m.If(start.fire & start.work):
            m.d.comb += self.activity.eq(Activity.BUSY)
        with m.Elif(~sequencer.idle | start.waits | self.issue.valid):
            m.d.comb += self.activity.eq(Activity.STALL)
        with m.Elif(~interlock.empty | self.retire.valid):
            m.d.comb += self.activity.eq(Activity.DRAIN)
        return m

    def _lanes(
        self, m: Module, platform: Platform, start: Any, group: Value, step: Any, latency: int
    ) -> Value:
        """The pipeline from the start of a group to its results, as wide as the widest group."""
        variant = self._variant
        bits = variant.array.accumulator_bits
        units = variant.units
        # Rows arrive `ACC_READ_CYCLES` after the last read of a vector was accepted. They are held
        # here from the next cycle until the next vector's arrive.
        src = Signal(self._vector * bits, reset_less=True)
        dst = Signal.like(src, name="dst")
        with m.If(self.alu_data.valid):
            m.d.sync += src.eq(self.alu_data.data)
        with m.If(self.alu_data2.valid):
            m.d.sync += dst.eq(self.alu_data2.data)
        late = ACC_READ_CYCLES + 1
        control = delay(m, step.control, late, name="control")
        # One reader for each mux that selects a part of a row.
        number = Replicated(m, platform, delay(m, group, late - 1, name="group"), name="group_here")

        def part(row: Value, lanes: int, number: Value) -> Value:
            return row.word_select(number[: ceil_log2(self._vector // lanes)], lanes * bits)

        x, y = (
            part(row, units.alu_lanes, number.copy_for(name))
            for name, row in (("x", dst), ("y", src))
        )
        m.submodules.lanes = lanes = AluLanes(variant=variant)
        immediate = Signal(bits)
        m.d.comb += immediate.eq(control.immediate)
        x_or_y = Mux(control.use_immediate, y, x)
        y_or_immediate = Mux(control.use_immediate, immediate.replicate(units.alu_lanes), y)
        m.d.comb += [
            lanes.x.eq(register(m, x_or_y, name="lanes_x")),
            lanes.y.eq(register(m, y_or_immediate, name="lanes_y")),
            lanes.operation.eq(control.operation),  # one cycle early
            lanes.saturate.eq(register(m, control.saturate, name="lanes_saturate")),
        ]
        ordinary = lanes.result
        if units.lane_reductions:
            ordinary = self._reduced(m, lanes, control, src, number)
        m.submodules.requantizer = requantizer = Requantizer(variant=variant)
        acc = part(src, units.requantize_lanes, number.copy_for("acc"))
        m.d.comb += [
            requantizer.acc.eq(register(m, acc, name="acc")),
            requantizer.zero_point.eq(register(m, control.immediate, name="zero_point")),
            requantizer.low.eq(register(m, control.low, name="low")),
            requantizer.high.eq(register(m, control.high, name="high")),
        ]
        if units.wide_requantize:
            m.d.comb += requantizer.wide.eq(register(m, control.wide, name="wide"))
        self._parameters(m, requantizer, step, group, number.copy_for("parameters"))

        common = latency - ALU_OPERAND_CYCLES
        ordinary = delay(m, ordinary, common - ordinary_latency(variant), name="ordinary")
        finished, out_bits = requantizer.result, variant.result_bits
        if variant.memory.tables:
            finished, out_bits = self._look_up(m, requantizer.result, step), TABLE_ENTRY_BITS
        outputs = delay(m, finished, common - requantize_latency(variant), name="requantized")
        requantized = Signal(units.requantize_lanes * bits)
        for lane in range(units.requantize_lanes):
            value = outputs.word_select(lane, out_bits).as_signed()
            m.d.comb += requantized.word_select(lane, bits).eq(value)
        widest = max(units.alu_lanes, units.requantize_lanes)
        is_requantize = delay(m, start.requantize, latency, name="is_requantize")
        return Mux(
            is_requantize,
            requantized.replicate(widest // units.requantize_lanes),
            ordinary.replicate(widest // units.alu_lanes),
        )

    def _reduced(
        self, m: Module, lanes: AluLanes, control: Any, src: Value, number: Replicated
    ) -> Value:
        """Results of the ordinary lanes, or of the operations over lanes: `ordinary_latency`.

        `control` is one cycle ahead of the operands in `lanes`, as is `number`, the group's.
        """
        variant = self._variant
        bits, block, count = (
            variant.array.accumulator_bits,
            variant.array.block_out,
            variant.units.alu_lanes,
        )
        m.submodules.reductions = reductions = LaneReductions(variant=variant)
        y = lanes.y
        row_lanes = LaneReductions.row_lanes(variant)
        if row_lanes > count:
            # Each group takes the batch row that it is a part of.
            place = number.copy_for("reductions")[ceil_log2(row_lanes // count) :]
            row = src.word_select(place[: ceil_log2(self._vector // row_lanes)], row_lanes * bits)
            immediate = Signal(bits)
            m.d.comb += immediate.eq(control.immediate)
            operand = Mux(control.use_immediate, immediate.replicate(row_lanes), row)
            y = register(m, operand, name="reductions_y")
        m.d.comb += [
            reductions.y.eq(y),
            reductions.operation.eq(control.operation),
            reductions.saturate.eq(lanes.saturate),
        ]
        latency = ordinary_latency(variant)
        found = delay(
            m, reductions.result, latency - LaneReductions.latency(variant), name="reduced"
        )
        rows = max(1, count // block)
        spread = Cat(found.word_select(row, bits).replicate(count // rows) for row in range(rows))
        over_lanes = matches(variant, control.operation, lambda op: op.over_lanes)
        return Mux(
            delay(m, over_lanes, latency + 1, name="over_lanes"),
            spread,
            delay(m, lanes.result, latency - AluLanes.latency(), name="of_lanes"),
        )

    def _look_up(self, m: Module, results: Value, step: Any) -> Value:
        """Pass a group's results to the tables; return what comes back, for any operation."""
        late = ALU_OPERAND_CYCLES + Requantizer.latency(self._variant)
        port = self.lookup
        m.d.comb += [
            port.enable.eq(delay(m, step.lookup, late, name="lookup")),
            port.results.as_value().eq(results),
        ]
        if len(port.table):
            m.d.comb += port.table.eq(delay(m, step.control.table, late, name="table"))
        return port.values.as_value()

    def _parameters(
        self,
        m: Module,
        requantizer: Requantizer,
        step: Any,
        group: Value,
        number: Value,
    ) -> None:
        """Read the slice of the parameter row that holds a group's channels, and select those."""
        variant = self._variant
        pad = scratchpad(variant, Memory.PAR)
        lanes = min(variant.units.requantize_lanes, pad.elements)
        _, width = read_shape(variant, Memory.PAR)
        entries = width // pad.element_bits
        groups_bits, slice_bits = (
            ceil_log2(pad.elements // lanes),
            ceil_log2(pad.elements // entries),
        )
        inside_bits = groups_bits - slice_bits
        late = _PAR_LATE
        row = Cat(group[inside_bits:groups_bits], step.par)
        m.d.comb += [
            self.par_read.enable.eq(delay(m, step.requantize, late, name="reads_par")),
            self.par_read.row.eq(delay(m, row, late, name="par_row")),
        ]
        held = register(m, self.par_read.data, name="par_slice")
        chosen = held.word_select(number[:inside_bits], lanes * pad.element_bits)
        repeat = variant.units.requantize_lanes // lanes
        picked = register(m, chosen.replicate(repeat), name="parameters")
        m.d.comb += requantizer.parameters.as_value().eq(picked)


def ordinary_latency(variant: Variant) -> int:
    """Latency in cycles from operands to results of all operations but REQUANTIZE."""
    reductions = LaneReductions.latency(variant) if variant.units.lane_reductions else 0
    return max(AluLanes.latency(), reductions)


def requantize_latency(variant: Variant) -> int:
    """Latency in cycles from REQUANTIZE's operands to its result, or to LOOKUP's."""
    tables = LOOKUP_CYCLES if variant.memory.tables else 0
    return Requantizer.latency(variant) + tables


def _check_latencies(latency: int, depth: int) -> None:
    """Check the latencies of paths that meet in the pipeline; `depth` is the ring's."""
    require_at_elaboration(
        ALU_OPERAND_CYCLES == ACC_READ_CYCLES + 2,
        "a group's operands must be taken when its rows are there: ALU_OPERAND_CYCLES must be "
        "ACC_READ_CYCLES and two registers",
    )
    require_at_elaboration(
        _PAR_LATE + RAM_READ_CYCLES + 2 == ALU_OPERAND_CYCLES,
        "a group's parameters must meet its operands: _PAR_LATE, RAM_READ_CYCLES and two registers "
        "must be ALU_OPERAND_CYCLES",
    )
    # A place is free two cycles after its group is written: `leave` and the count are registered.
    require_at_elaboration(
        depth >= latency + QUEUE_CYCLES + 2,
        "one group per cycle must pass: the ring must hold all between issue and write, and "
        "_RING_SPARE of at least two more",
    )
