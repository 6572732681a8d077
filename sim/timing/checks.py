"""Checks LOADs and STOREs: their rows in scratchpads, and their region in memory."""

import numpy as np

from daedal.common.errors import DeviceError, ProgramError
from daedal.isa.program import Program
from daedal.isa.scratchpad import scratchpad
from daedal.isa.table import LoadMemory, Opcode, OutMemory
from daedal.isa.transfer import PADDABLE, check_region, transfer
from daedal.sim.timing.columns import PADS, SIZES, Columns
from daedal.sim.timing.state import Plan

__all__ = ["check_regions", "check_rows_moved"]


def check_rows_moved(columns: Columns, program: Program) -> None:
    """Raise DeviceError for the first LOAD or STORE whose rows, padding or scratchpad do not
    exist. This also bounds the bursts of an instruction."""
    variant = columns.variant
    both = (Opcode.LOAD, Opcode.STORE)
    memory = columns.get("memory", *both)
    depth, paddable = np.zeros_like(memory), np.zeros(columns.count, dtype=np.bool_)
    for code, kinds in ((Opcode.LOAD, LoadMemory.of(variant)), (Opcode.STORE, OutMemory)):
        for kind in kinds:
            chosen = (columns.opcode == code) & (memory == kind)
            depth[chosen] = scratchpad(variant, kind.memory).depth_rows
            paddable[chosen] = kind in PADDABLE
    top, bottom, left, right = (columns.get(name, Opcode.LOAD) for name in PADS)
    blocks, rows, cols = (columns.get(name, *both) for name in SIZES)
    total = blocks * (rows + top + bottom) * (cols + left + right)
    bad = (total > 0) & (columns.get("row", *both) + total > depth)
    bad |= (top + bottom + left + right > 0) & ~paddable
    bad = np.isin(columns.opcode, both) & (bad | (depth == 0))
    if not bad.any():
        return
    number = int(np.argmax(bad))
    instruction = program.instructions[number]
    try:
        transfer(variant, instruction)
    except ProgramError as error:
        raise DeviceError(f"instruction {number} ({instruction.unit.name}): {error}") from error


def check_regions(columns: Columns, plan: Plan, program: Program) -> None:
    """Raise DeviceError for the first LOAD or STORE that reaches beyond its region."""
    both = (Opcode.LOAD, Opcode.STORE)
    base = columns.get("base", *both)
    reach = columns.get("offset_beats", *both) + plan.request_beats
    reach += (plan.blocks - 1) * plan.block_stride + (plan.rows - 1) * plan.row_stride
    words = np.array(program.region_words, dtype=np.int64)[base]
    beyond = (plan.blocks * plan.rows * plan.request_beats > 0) & (reach > words)
    if not beyond.any():
        return
    number = int(np.argmax(beyond))
    unit = program.instructions[number].unit
    bus_bytes = columns.variant.bus_bytes
    try:
        check_region(
            columns.variant, unit.name, base[number], reach[number] * bus_bytes, words[number]
        )
    except ProgramError as error:
        raise DeviceError(f"instruction {number} ({unit.name}): {error}") from error
