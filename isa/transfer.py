"""Expands a LOAD or STORE into scratchpad rows, padding rows and byte offsets in memory."""

from dataclasses import dataclass

import numpy as np

from daedal.common.errors import ProgramError
from daedal.isa.instruction import Instruction
from daedal.isa.numerics import IntArray
from daedal.isa.scratchpad import NARROW_WEIGHT_BITS, Memory, scratchpad
from daedal.isa.table import BASES, LoadMemory, Opcode, OutMemory
from daedal.isa.variant import Variant

__all__ = [
    "PADDABLE",
    "Transfer",
    "check_region",
    "memory_beats",
    "memory_element_bits",
    "transfer",
    "transfer_end_bytes",
]

PADDABLE = (LoadMemory.INP, LoadMemory.ACC, LoadMemory.ACC_NARROW)


def memory_element_bits(variant: Variant, kind: LoadMemory | OutMemory) -> int:
    """Bits of an element in memory."""
    if kind is LoadMemory.ACC_NARROW:
        return variant.array.input_bits
    if kind is LoadMemory.WGT_NARROW:
        return NARROW_WEIGHT_BITS
    return scratchpad(variant, kind.memory).memory_bits


def memory_beats(variant: Variant, kind: LoadMemory | OutMemory) -> int:
    """Bus words of a scratchpad row in memory; always a power of two."""
    elements = scratchpad(variant, kind.memory).elements
    return elements * memory_element_bits(variant, kind) // variant.bus.data_bits


@dataclass(frozen=True)
class Transfer:
    """Rows moved, in order: `rows[k]` pairs with `offsets_bytes[k]` above the base address.

    `pad_rows` are filled with the pad value; `element_bits` is the width of an element in memory.
    """

    memory: Memory
    rows: IntArray
    offsets_bytes: IntArray
    pad_rows: IntArray
    row_bytes: int
    element_bits: int


def check_region(variant: Variant, name: str, base: int, reach_bytes: int, words: int) -> None:
    """Raise ProgramError if the LOAD or STORE `name` reaches beyond the words of its region."""
    if reach_bytes > words * variant.bus_bytes:
        raise ProgramError(
            f"{name} must stay within the {words * variant.bus_bytes} bytes of {BASES[base]}, not "
            f"reach byte {reach_bytes - 1}"
        )


def transfer(variant: Variant, instruction: Instruction) -> Transfer:
    """Expand a LOAD or STORE; ProgramError if it exceeds its scratchpad or has wrong padding.

    One without rows moves nothing, whatever row it names.
    """
    kind: LoadMemory | OutMemory
    if instruction.opcode is Opcode.LOAD:
        kind = target = LoadMemory(instruction.memory)
        if target not in LoadMemory.of(variant):
            raise ProgramError(
                f"LOAD must fill a scratchpad of variant {variant.name!r}, not {target.name}"
            )
        pads = [instruction.pad_top, instruction.pad_bottom]
        pads += [instruction.pad_left, instruction.pad_right]
        if any(pads) and target not in PADDABLE:
            known = ", ".join(item.name for item in PADDABLE)
            raise ProgramError(f"LOAD may pad only {known}, not {target.name}")
    else:
        kind = OutMemory(instruction.memory)
        pads = [0, 0, 0, 0]
    memory = kind.memory
    pad = scratchpad(variant, memory)
    element_bits = memory_element_bits(variant, kind)
    row_bytes = pad.elements * element_bits // 8
    top, bottom, left, right = pads
    blocks, rows, cols = instruction.blocks, instruction.rows, instruction.cols
    height, width = top + rows + bottom, left + cols + right
    total = blocks * height * width
    if total and instruction.row + total > pad.depth_rows:
        raise ProgramError(
            f"{instruction.opcode.name} must stay below {pad.depth_rows} rows of scratchpad "
            f"{memory.value!r}, not reach {instruction.row + total - 1}"
        )
    numbers = np.arange(instruction.row, instruction.row + total, dtype=np.int64)
    filled = numbers[:0]
    if total != blocks * rows * cols:
        inside = np.zeros((blocks, height, width), dtype=bool)
        inside[:, top : top + rows, left : left + cols] = True
        numbers, filled = numbers[inside.reshape(-1)], numbers[~inside.reshape(-1)]
    offsets = np.arange(cols, dtype=np.int64) * row_bytes
    for count, stride_beats in (
        (rows, instruction.row_stride_beats),
        (blocks, instruction.block_stride_beats),
    ):
        if count != 1:
            steps = np.arange(count, dtype=np.int64) * (stride_beats * variant.bus_bytes)
            offsets = np.add.outer(steps, offsets).reshape(-1)
    offsets += instruction.offset_beats * variant.bus_bytes
    return Transfer(memory, numbers, offsets, filled, row_bytes, element_bits)


def transfer_end_bytes(variant: Variant, store: Instruction) -> int:
    """One past the last byte above the base address that a STORE writes; 0 if it writes nothing."""
    blocks, rows, cols = store.blocks, store.rows, store.cols
    if not blocks * rows * cols:
        return 0
    beats = store.offset_beats + cols * memory_beats(variant, OutMemory(store.memory))
    beats += (rows - 1) * store.row_stride_beats + (blocks - 1) * store.block_stride_beats
    return beats * variant.bus_bytes
