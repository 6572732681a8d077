"""Converts a program into the arrays of a `Plan`: transfers of each instruction, rows of each step.

Input: a program, its base addresses, external memory (micro-ops come from there) and a memory
model. Output: a `Plan`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from daedal.common.errors import DeviceError
from daedal.isa.latencies import (
    PAGE_BYTES,
    alu_latency_cycles,
    fifo_depth_words,
    gemm_lead_cycles,
)
from daedal.isa.memory_model import MemoryModel
from daedal.isa.program import Program
from daedal.isa.protocols import next_page
from daedal.isa.registers import MARK_BYTES
from daedal.isa.run_registers import num_marked
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.sdram_memory import REQUEST_CYCLES
from daedal.isa.table import (
    LOOPS,
    AluOp,
    LoadMemory,
    Opcode,
    OutMemory,
    Unit,
    instruction_bits,
    instruction_bytes,
)
from daedal.isa.transfer import memory_beats
from daedal.isa.variant import Variant
from daedal.sim.timing.alu import READS_SOURCE, READS_TARGET, WRITES_ACC
from daedal.sim.timing.checks import check_regions, check_rows_moved
from daedal.sim.timing.columns import PADS, SIZES, Columns, Ints
from daedal.sim.timing.expansion import GOOD, NO_UOPS, expand_program
from daedal.sim.timing.nests import loops_of
from daedal.sim.timing.state import NO_BANK, RING, SDRAM, SEPARATE, SHARED, Plan

__all__ = ["prepare"]

Bytes = npt.NDArray[np.uint8]

_PLAIN, _INP, _ACC = 0, 1, 2
_QUEUED = (Unit.LOAD, Unit.GEMM, Unit.ALU, Unit.STORE)


def prepare(
    program: Program, bases: Sequence[int], memory: Bytes, timing: MemoryModel, with_marks: bool
) -> Plan:
    """Convert a program for the model.

    Raises DeviceError where a row lies outside its scratchpad, micro-ops outside their memory, or a
    transfer outside its region.
    """
    columns = Columns(program)
    check_rows_moved(columns, program)
    plan = _plan(program, columns, bases, memory, timing, with_marks)
    check_regions(columns, plan, program)
    loops = loops_of(columns, memory, plan.form)
    variant = program.variant
    uops = {unit: scratchpad(variant, pad) for unit, pad in _UOPS.items()}
    memories = {
        unit: np.zeros(pad.depth_rows * pad.shape[0], dtype=np.uint64) for unit, pad in uops.items()
    }
    bad = expand_program(
        plan, loops, memories[Unit.GEMM], memories[Unit.ALU], plan.banks, plan.sources, plan.targets
    )
    if bad != GOOD:
        name = program.instructions[bad].unit.name
        if loops.largest == NO_UOPS:
            raise DeviceError(f"micro-ops must exist; those of instruction {bad} ({name}) do not")
        raise DeviceError(
            f"rows must lie in their scratchpad; instruction {bad} ({name}) reaches row "
            f"{loops.largest}"
        )
    return plan


_UOPS = {Unit.GEMM: Memory.UOP_GEMM, Unit.ALU: Memory.UOP_ALU}


def _plan(
    program: Program,
    columns: Columns,
    bases: Sequence[int],
    memory: Bytes,
    timing: MemoryModel,
    with_marks: bool,
) -> Plan:
    """The whole plan except the rows of steps, whose arrays are only allocated."""
    variant = columns.variant
    every = (Opcode.LOAD, Opcode.GEMM, Opcode.ALU, Opcode.STORE)
    unit = columns.unit
    order = np.argsort(unit, kind="stable")
    order = order[unit[order] != Unit.FETCH]
    sizes = [int((unit == number).sum()) for number in _QUEUED]
    order_at = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    slot = np.zeros(columns.count, dtype=np.int64)
    for number in _QUEUED:
        slot[order[order_at[number] : order_at[number + 1]]] = np.arange(sizes[number])
    push = columns.get("push", *every)
    gives = [int((push[unit == u] >> v & 1).sum()) for u in _QUEUED for v in _QUEUED]
    steps, step_at, totals = _steps(columns)
    groups, form = _alu(columns)
    return Plan(
        unit=unit,
        pop=columns.get("pop", *every),
        push=push,
        mark=columns.get("mark", *every) * int(with_marks),
        slot=slot,
        order=order.astype(np.int64),
        order_at=order_at,
        give_at=np.concatenate([[0], np.cumsum(gives)]).astype(np.int64),
        **_moves(columns, bases),
        steps=steps,
        step_at=step_at,
        groups=groups,
        form=form,
        banks=np.full(totals[Opcode.GEMM], NO_BANK, dtype=np.uint8),
        sources=np.zeros(totals[Opcode.ALU], dtype=np.int32),
        targets=np.zeros(totals[Opcode.ALU], dtype=np.int32),
        **_numbers(variant, timing, columns.count),
        **_placed(program, memory.size, timing, with_marks),
    )


def _numbers(variant: Variant, timing: MemoryModel, count: int) -> dict[str, Any]:
    """Scalars of the plan that follow from the variant and the memory model."""
    words = instruction_bits(variant) // variant.bus.data_bits
    fetch_fifo, load_fifo = (fifo_depth_words(variant, reader) for reader in range(2))
    return {
        "instruction_words": words,
        "program_words": words * count,
        "page_words": PAGE_BYTES // variant.bus_bytes,
        "queue_depth": variant.units.queue_depth,
        "read_bursts": variant.bus.read_bursts,
        "write_bursts": variant.bus.write_bursts,
        "fetch_fifo": fetch_fifo,
        "load_fifo": load_fifo,
        "inp_words": scratchpad(variant, Memory.INP).row_beats(variant),
        "gemm_lead": gemm_lead_cycles(variant),
        "alu_latency": alu_latency_cycles(variant),
        "bank_bits": variant.memory.acc_banks.bit_length() - 2,
        "top_bit": scratchpad(variant, Memory.ACC).index_bits - 1,
        "has_recorder": int(variant.units.counters),
        "mark_words": MARK_BYTES // variant.bus_bytes,
        "read_latency": REQUEST_CYCLES if timing.sdram else timing.read_latency_cycles,
        "write_latency": timing.write_latency_cycles,
        # An SDRAM has places for all bursts that the machine asks for (`SdramMemory.check`).
        "max_reads": RING if timing.sdram else timing.max_read_bursts,
        "max_writes": RING if timing.sdram else timing.max_write_bursts,
        "sharing": SDRAM if timing.sdram else SHARED if timing.shared_bus else SEPARATE,
        "beat": timing.beat_cycles,
        "write_beat": 1 if timing.sdram else timing.beat_cycles,
    }


def _placed(
    program: Program, memory_bytes: int, timing: MemoryModel, with_marks: bool
) -> dict[str, Any]:
    """Addresses, in bus words, of instructions and marks: as the RTL device places them, behind
    all regions. Raises UserError if an SDRAM does not suit the machine, or is too small."""
    variant = program.variant
    begin = next_page(memory_bytes)
    marks = next_page(begin + len(program.instructions) * instruction_bytes(variant))
    records = num_marked(program) if with_marks and variant.units.counters else 0
    if timing.sdram is not None:
        timing.sdram.check(variant, marks + records * MARK_BYTES)
    return {
        "program_address": begin // variant.bus_bytes,
        "marks_address": marks // variant.bus_bytes,
    }


def _moves(columns: Columns, bases: Sequence[int]) -> dict[str, Any]:
    """Transfers of LOAD and STORE, in bus words."""
    variant = columns.variant
    both = (Opcode.LOAD, Opcode.STORE)
    memory = columns.get("memory", *both)
    words, target = np.zeros_like(memory), np.zeros_like(memory)
    for code, kinds in ((Opcode.LOAD, LoadMemory.of(variant)), (Opcode.STORE, OutMemory)):
        for kind in kinds:
            chosen = (columns.opcode == code) & (memory == kind)
            words[chosen] = memory_beats(variant, kind)
            target[chosen] = {Memory.ACC: _ACC, Memory.INP: _INP}.get(kind.memory, _PLAIN)
    first = np.array(bases, dtype=np.int64) // variant.bus_bytes
    fields = {name: columns.get(name, *both) for name in SIZES}
    return {
        **fields,
        **{name: columns.get(name, Opcode.LOAD) for name in PADS},
        "target": target,
        "address": first[columns.get("base", *both)] + columns.get("offset_beats", *both),
        "request_beats": words * fields["cols"],
        "row_stride": columns.get("row_stride_beats", *both),
        "block_stride": columns.get("block_stride_beats", *both),
        "first_row": columns.get("row", *both),
        "row_words": words,
    }


def _steps(columns: Columns) -> tuple[Ints, Ints, dict[Opcode, int]]:
    """Steps of each GEMM and ALU instruction, index of the first, and total per opcode.

    An instruction without steps occupies one entry, which only retires it.
    """
    both = (Opcode.GEMM, Opcode.ALU)
    steps = np.maximum(0, columns.get("uop_end", *both) - columns.get("uop_begin", *both))
    for level in range(LOOPS):
        steps *= columns.get(f"extent{level}", *both)
    step_at = np.zeros_like(steps)
    totals = {}
    for opcode in both:
        chosen = columns.opcode == opcode
        places = np.maximum(1, steps[chosen])
        step_at[chosen] = np.cumsum(places) - places
        totals[opcode] = int(places.sum())
    return steps, step_at, totals


def _alu(columns: Columns) -> tuple[Ints, Ints]:
    """Groups per vector of each ALU instruction, and what it reads and writes (`Plan.form`)."""
    units = columns.variant.units
    elements = scratchpad(columns.variant, Memory.ACC).elements
    operation = columns.get("operation", Opcode.ALU)
    immediate = columns.get("use_immediate", Opcode.ALU) > 0
    requantizes = np.isin(operation, [op for op in AluOp if op.requantizes])
    takes_x = np.isin(operation, [op for op in AluOp if op.takes_x])
    reads_source = takes_x | requantizes | ~immediate
    reads_target = takes_x & ~immediate & ~requantizes
    into_acc = columns.get("destination", Opcode.ALU) == OutMemory.ACC
    form = READS_SOURCE * reads_source + READS_TARGET * reads_target + WRITES_ACC * into_acc
    lanes = np.where(requantizes, units.requantize_lanes, units.alu_lanes)
    return elements // lanes, form.astype(np.int64)
