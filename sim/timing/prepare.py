"""A program as the arrays of a `Plan`: what each instruction moves, and the rows of its steps.

Input: a program, its base addresses, external memory (micro-ops come from there) and a memory
model. Output: a `Plan`.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from daedal.isa.errors import DeviceError
from daedal.isa.instruction import Instruction, reads_destination, units_of
from daedal.isa.latencies import (
    PAGE_BYTES,
    alu_latency_cycles,
    fifo_depth_words,
    gemm_lead_cycles,
)
from daedal.isa.memory_model import MemoryModel
from daedal.isa.program import Program
from daedal.isa.registers import MARK_BYTES
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import (
    LOOPS,
    AluOp,
    LoadMemory,
    Opcode,
    OutMemory,
    Unit,
    instruction_bits,
    micro_op_layout,
)
from daedal.isa.variant import Variant
from daedal.sim.timing.alu import READS_SOURCE, READS_TARGET, WRITES_ACC
from daedal.sim.timing.expansion import expand_banks, expand_rows
from daedal.sim.timing.state import NO_BANK, Plan

__all__ = ["prepare"]

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

_PLAIN, _INP, _ACC = 0, 1, 2
_COLUMNS = (
    "unit", "pop", "push", "mark", "slot", "target", "address", "request_beats", "blocks", "rows",
    "cols", "row_stride", "block_stride", "first_row", "row_words", "pad_top", "pad_bottom",
    "pad_left", "pad_right", "steps", "step_at", "groups", "form",
)  # fmt: skip
_MOVES = ("blocks", "rows", "cols", "pad_top", "pad_bottom", "pad_left", "pad_right")


def prepare(
    program: Program, bases: Sequence[int], memory: Bytes, timing: MemoryModel, with_marks: bool
) -> Plan:
    """Lay a program out for the model.

    Raises DeviceError where a row leaves the accumulators, or micro-ops leave their memory.
    """
    return _Preparation(program, bases, memory).plan(timing, with_marks)


class _Preparation:
    """Walks the instructions in order, with the micro-ops as they are then."""

    def __init__(self, program: Program, bases: Sequence[int], memory: Bytes) -> None:
        self._variant = program.variant
        self._instructions = program.instructions
        self._bases = bases
        self._memory = memory
        count = len(program.instructions)
        self._columns = {name: np.zeros(count, dtype=np.int64) for name in _COLUMNS}
        per_row = {unit: scratchpad(self._variant, _UOPS[unit]) for unit in _UOPS}
        self._uops = {
            unit: np.zeros(pad.depth_rows * pad.shape[0], dtype=np.uint64)
            for unit, pad in per_row.items()
        }
        self._num_steps = {Unit.GEMM: 0, Unit.ALU: 0}
        # Two tables: members of the two enumerations are equal as keys.
        self._load_words = {target: _row_words(self._variant, target) for target in LoadMemory}
        self._store_words = {target: _row_words(self._variant, target) for target in OutMemory}

    def plan(self, timing: MemoryModel, with_marks: bool) -> Plan:
        """Everything in its place."""
        columns, variant = self._columns, self._variant
        order: dict[Unit, list[int]] = {unit: [] for unit in Unit}
        gives = np.zeros(16, dtype=np.int64)
        for index, item in enumerate(self._instructions):
            unit = item.unit
            columns["unit"][index] = unit
            columns["slot"][index] = len(order[unit])
            order[unit].append(index)
            if unit is Unit.FETCH:
                continue
            columns["pop"][index] = item.pop
            columns["push"][index] = item.push
            columns["mark"][index] = item.mark and with_marks
            for taker in units_of(item.push):
                gives[4 * unit + taker] += 1
        steps = self._count_steps()
        banks = np.full(steps[Unit.GEMM], NO_BANK, dtype=np.uint8)
        sources, targets = (np.zeros(steps[Unit.ALU], dtype=np.int32) for _ in range(2))
        for index, item in enumerate(self._instructions):
            if item.opcode in (Opcode.LOAD, Opcode.STORE):
                self._move(index, item)
            elif item.opcode is Opcode.GEMM:
                self._gemm(index, item, banks)
            elif item.opcode is Opcode.ALU:
                self._alu(index, item, sources, targets)
        queued = [order[unit] for unit in Unit if unit is not Unit.FETCH]
        ends = np.cumsum([0, *(len(part) for part in queued)])
        bus, words = variant.bus, instruction_bits(variant) // variant.bus.data_bits
        fetch_fifo, load_fifo = fifo_depth_words(variant, words)
        acc = scratchpad(variant, Memory.ACC)
        return Plan(
            **columns,
            order=np.array([i for part in queued for i in part], dtype=np.int64),
            order_at=ends.astype(np.int64),
            give_at=np.concatenate([[0], np.cumsum(gives)]).astype(np.int64),
            banks=banks,
            sources=sources,
            targets=targets,
            instruction_words=words,
            program_words=words * len(self._instructions),
            page_words=PAGE_BYTES // variant.bus_bytes,
            queue_depth=variant.units.queue_depth,
            read_bursts=bus.read_bursts,
            write_bursts=bus.write_bursts,
            fetch_fifo=fetch_fifo,
            load_fifo=load_fifo,
            inp_words=scratchpad(variant, Memory.INP).row_beats(variant),
            gemm_lead=gemm_lead_cycles(variant),
            alu_latency=alu_latency_cycles(variant),
            bank_bits=_bank_bits(variant),
            top_bit=acc.index_bits - 1,
            mark_words=MARK_BYTES // variant.bus_bytes,
            read_latency=timing.read_latency_cycles,
            write_latency=timing.write_latency_cycles,
            max_reads=timing.max_read_bursts,
            max_writes=timing.max_write_bursts,
            shared=int(timing.shared_bus),
            beat=timing.beat_cycles,
        )

    def _count_steps(self) -> dict[Unit, int]:
        """Steps of GEMM and ALU in all; an instruction with none has one that does nothing."""
        total = {Unit.GEMM: 0, Unit.ALU: 0}
        for index, item in enumerate(self._instructions):
            if item.unit in total:
                count = max(0, item.uop_end - item.uop_begin)
                for level in range(LOOPS):
                    count *= getattr(item, f"extent{level}")
                self._columns["steps"][index] = count
                self._columns["step_at"][index] = total[item.unit]
                total[item.unit] += max(1, count)
        return total

    def _move(self, index: int, item: Instruction) -> None:
        """A LOAD or STORE; micro-ops that it loads are remembered."""
        columns, bus_bytes = self._columns, self._variant.bus_bytes
        loads = item.opcode is Opcode.LOAD
        if loads:
            target = LoadMemory(item.memory)
            memory, words = target.memory, self._load_words[target]
        else:
            source = OutMemory(item.memory)
            memory, words = source.memory, self._store_words[source]
        kind = _ACC if memory is Memory.ACC else _INP if memory is Memory.INP else _PLAIN
        values = item.values
        for name in _MOVES:
            columns[name][index] = values.get(name, 0)
        columns["target"][index] = kind
        columns["address"][index] = self._bases[item.base] // bus_bytes + item.offset_beats
        columns["request_beats"][index] = words * item.cols
        columns["row_stride"][index] = item.row_stride_beats
        columns["block_stride"][index] = item.block_stride_beats
        columns["first_row"][index] = item.row
        columns["row_words"][index] = words
        for unit, uops in _UOPS.items():
            if memory is uops:
                self._load_uops(index, item, unit)

    def _load_uops(self, index: int, item: Instruction, unit: Unit) -> None:
        bus_bytes = self._variant.bus_bytes
        row_bytes = int(self._columns["row_words"][index]) * bus_bytes
        size = item.cols * row_bytes
        at = item.row * row_bytes // 8
        for block in range(item.blocks):
            for row in range(item.rows):
                words = block * item.block_stride_beats + row * item.row_stride_beats
                begin = (int(self._columns["address"][index]) + words) * bus_bytes
                data = self._memory[begin : begin + size]
                if len(data) < size or at + size // 8 > len(self._uops[unit]):
                    raise DeviceError(
                        f"micro-ops must stay within memory; those of instruction {index} do not"
                    )
                self._uops[unit][at : at + size // 8] = data.view(np.uint64)
                at += size // 8

    def _loops(self, item: Instruction, field: str) -> Ints:
        names = [f"extent{k}" for k in range(LOOPS)] + [f"{field}_factor{k}" for k in range(LOOPS)]
        return np.array([item.values.get(name, 0) for name in names], dtype=np.int64)

    def _expanded(self, index: int, item: Instruction) -> bool:
        """Whether there are steps. Raises DeviceError for micro-ops that do not exist."""
        if self._columns["steps"][index] == 0:
            return False
        known = len(self._uops[item.unit])
        if item.uop_end > known:
            raise DeviceError(
                f"micro-ops must be below {known}; those of instruction {index} "
                f"({item.unit.name}) end at {item.uop_end}"
            )
        return True

    def _check(self, index: int, largest: int, rows: int) -> None:
        if largest >= rows:
            raise DeviceError(
                f"rows must stay below {rows}; instruction {index} "
                f"({self._instructions[index].unit.name}) reaches {largest}"
            )

    def _gemm(self, index: int, item: Instruction, banks: npt.NDArray[np.uint8]) -> None:
        if not self._expanded(index, item):
            return
        acc = scratchpad(self._variant, Memory.ACC)
        field = micro_op_layout(self._variant, Unit.GEMM)["acc"]
        assert field.offset == 0, "expand_banks reads the lowest field"
        largest = expand_banks(
            self._uops[Unit.GEMM], item.uop_begin, item.uop_end, (1 << field.width) - 1,
            self._loops(item, "acc"), item.acc_base, _bank_bits(self._variant),
            acc.index_bits - 1, banks, int(self._columns["step_at"][index]),
        )  # fmt: skip
        self._check(index, largest, acc.depth_rows)

    def _alu(
        self,
        index: int,
        item: Instruction,
        sources: npt.NDArray[np.int32],
        targets: npt.NDArray[np.int32],
    ) -> None:
        variant, columns = self._variant, self._columns
        operation = AluOp(item.operation)
        requantizes = operation is AluOp.REQUANTIZE
        reads_source = operation.takes_x or requantizes or not item.use_immediate
        into_acc = item.destination == OutMemory.ACC
        reads_target = not requantizes and reads_destination(item)
        columns["form"][index] = (
            READS_SOURCE * reads_source + READS_TARGET * reads_target + WRITES_ACC * into_acc
        )
        units = variant.units
        lanes = units.requantize_lanes if requantizes else units.alu_lanes
        acc = scratchpad(variant, Memory.ACC)
        columns["groups"][index] = acc.elements // lanes
        if not self._expanded(index, item):
            return
        layout = micro_op_layout(variant, Unit.ALU)
        out = scratchpad(variant, Memory.OUT)
        limits = {"src": acc.depth_rows, "dst": acc.depth_rows if into_acc else out.depth_rows}
        if reads_target:
            limits["dst"] = min(limits["dst"], acc.depth_rows)
        for name, rows in (("src", sources), ("dst", targets)):
            field = layout[name]
            largest = expand_rows(
                self._uops[Unit.ALU], item.uop_begin, item.uop_end, field.offset,
                (1 << field.width) - 1, self._loops(item, name), getattr(item, f"{name}_base"),
                rows, int(columns["step_at"][index]),
            )  # fmt: skip
            self._check(index, largest, limits[name])


_UOPS = {Unit.GEMM: Memory.UOP_GEMM, Unit.ALU: Memory.UOP_ALU}


def _bank_bits(variant: Variant) -> int:
    """Low bits of a row that choose its bank, beside the top bit."""
    return variant.memory.acc_banks.bit_length() - 2


def _row_words(variant: Variant, target: LoadMemory | OutMemory) -> int:
    """Bus words of a scratchpad row in memory."""
    pad = scratchpad(variant, target.memory)
    if target is LoadMemory.ACC_NARROW:
        return pad.elements * variant.array.input_bits // variant.bus.data_bits
    return pad.row_beats(variant)
