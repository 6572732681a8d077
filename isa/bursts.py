"""Lists the bursts that the LOADs and STOREs of a program send over the bus, in program order.

Input: a program and the addresses of its regions. Output: `MemoryBursts`. The bursts are those of
`hw/bus/strided.py` (one request for each row of memory) and `hw/bus/burst.py` (as long as they can
be: at most 32 words, none across a page). FETCH's reads of the program are not among them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from daedal.isa.instruction import Instruction
from daedal.isa.latencies import MAX_BURST_BEATS, PAGE_BYTES
from daedal.isa.numerics import IntArray
from daedal.isa.program import Program
from daedal.isa.table import LoadMemory, Opcode, OutMemory
from daedal.isa.transfer import memory_beats
from daedal.isa.variant import Variant

__all__ = ["MemoryBursts", "program_bursts"]


@dataclass(frozen=True)
class MemoryBursts:
    """Bursts in the order of the program, an element for each.

    `writes`: 1 for a STORE's. `addresses` are bytes, `beats` bus words.
    """

    writes: IntArray
    addresses: IntArray
    beats: IntArray


def program_bursts(program: Program, bases: Sequence[int]) -> MemoryBursts:
    """All bursts of a run whose regions lie at `bases`."""
    variant = program.variant
    writes, starts, lengths = [], [], []
    for instruction in program.instructions:
        if instruction.opcode not in (Opcode.LOAD, Opcode.STORE):
            continue
        base = bases[instruction.base] // variant.bus_bytes
        words, beats = _requests(variant, instruction)
        starts.append(base + words)
        lengths.append(np.full(len(words), beats))
        writes.append(np.full(len(words), instruction.opcode is Opcode.STORE))
    if not starts:
        return MemoryBursts(*(np.zeros(0, np.int64) for _ in range(3)))
    return _split(
        variant,
        np.concatenate(writes).astype(np.int64),
        np.concatenate(starts),
        np.concatenate(lengths),
    )


def _requests(variant: Variant, instruction: Instruction) -> tuple[IntArray, int]:
    """First word of each row of memory, and the words of a row."""
    kind = LoadMemory if instruction.opcode is Opcode.LOAD else OutMemory
    beats = instruction.cols * memory_beats(variant, kind(instruction.memory))
    blocks, rows = np.ogrid[: instruction.blocks, : instruction.rows]
    words = (
        instruction.offset_beats
        + blocks * instruction.block_stride_beats
        + rows * instruction.row_stride_beats
    )
    return words.reshape(-1)[: None if beats else 0].astype(np.int64), beats


def _split(variant: Variant, writes: IntArray, starts: IntArray, left: IntArray) -> MemoryBursts:
    """Cut one burst off every request at a time, then restore their order."""
    page_words = PAGE_BYTES // variant.bus_bytes
    number = np.arange(len(starts))
    parts = []
    while len(number):
        size = np.minimum(np.minimum(left, MAX_BURST_BEATS), page_words - starts % page_words)
        parts.append((number, writes, starts, size))
        some = left > size
        number, writes = number[some], writes[some]
        starts, left = (starts + size)[some], (left - size)[some]
    numbers, *columns = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(numbers, kind="stable")
    found_writes, words, beats = (column[order] for column in columns)
    return MemoryBursts(found_writes, words * variant.bus_bytes, beats)
