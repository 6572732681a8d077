"""Accesses of an instruction: scratchpad rows, micro-op slots, bus words of external memory.

Derived from the same expansions as `semantics`, for analyses that consider only ordering.
"""

from dataclasses import dataclass

import numpy as np

from daedal.isa.instruction import Instruction, reads_destination
from daedal.isa.microcode import UopArray, expand
from daedal.isa.numerics import IntArray
from daedal.isa.scratchpad import TABLE_ROWS, Memory
from daedal.isa.table import AluOp, GemmMode, Opcode, OutMemory, Unit
from daedal.isa.transfer import transfer
from daedal.isa.variant import Variant

__all__ = ["Access", "External", "effects", "external"]


@dataclass(frozen=True)
class Access:
    """Rows of one scratchpad (unique, sorted) that an instruction reads or writes."""

    memory: Memory
    rows: IntArray
    write: bool


@dataclass(frozen=True)
class External:
    """Bus words (beats) above a base address that a LOAD reads or a STORE writes."""

    base: int
    beats: IntArray
    write: bool


def effects(variant: Variant, instruction: Instruction, uops: UopArray | None) -> list[Access]:
    """Scratchpad accesses of an instruction; `uops` is the micro-op memory of GEMM or ALU."""
    if instruction.opcode in (Opcode.LOAD, Opcode.STORE):
        move = transfer(variant, instruction)
        loads = instruction.opcode is Opcode.LOAD
        rows = np.concatenate([move.rows, move.pad_rows]) if loads else move.rows
        return [Access(move.memory, np.sort(rows), loads)] if len(rows) else []
    if instruction.opcode is Opcode.FINISH:
        return []
    assert uops is not None, "GEMM and ALU read micro-ops"
    steps = expand(variant, instruction, uops)
    if len(steps) == 0:
        return []
    rows_of = {name: np.unique(index) for name, index in steps.rows.items()}
    slots = np.arange(instruction.uop_begin, instruction.uop_end, dtype=np.int64)
    if instruction.unit is Unit.GEMM:
        inputs, weights = rows_of["inp"], rows_of["wgt"]
        mode = GemmMode(instruction.mode)
        if taps := mode.taps:
            inputs = np.unique(inputs[:, None] + np.arange(taps))
            weights = np.unique(weights // variant.array.block_out)
        return [
            Access(Memory.UOP_GEMM, slots, False),
            Access(mode.operand, inputs, False),
            Access(Memory.WGT, weights, False),
            Access(Memory.ACC, rows_of["acc"], False),
            Access(Memory.ACC, rows_of["acc"], True),
        ]
    result = [Access(Memory.UOP_ALU, slots, False)]
    operation = AluOp(instruction.operation)
    requantizes = operation.requantizes
    if operation.takes_x or requantizes or not instruction.use_immediate:
        result.append(Access(Memory.ACC, rows_of["src"], False))
    if reads_destination(instruction):
        result.append(Access(Memory.ACC, rows_of["dst"], False))
    if requantizes:
        result.append(Access(Memory.PAR, rows_of["par"], False))
    if operation is AluOp.LOOKUP:
        table = np.arange(TABLE_ROWS, dtype=np.int64) + instruction.table * TABLE_ROWS
        result.append(Access(Memory.TAB, table, False))
    result.append(Access(OutMemory(instruction.destination).memory, rows_of["dst"], True))
    return result


def external(variant: Variant, instruction: Instruction) -> External | None:
    """Bus words that a LOAD or STORE touches, or None."""
    if instruction.opcode not in (Opcode.LOAD, Opcode.STORE):
        return None
    move = transfer(variant, instruction)
    if len(move.offsets_bytes) == 0:
        return None
    beats = move.offsets_bytes[:, None] // variant.bus_bytes + np.arange(
        move.row_bytes // variant.bus_bytes
    )
    return External(
        instruction.base, np.unique(beats.reshape(-1)), instruction.opcode is Opcode.STORE
    )
