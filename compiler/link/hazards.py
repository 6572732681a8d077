"""Which earlier instructions an instruction must not overtake: hazards on rows and on memory.

For every scratchpad row and every bus word of the memory that is written, the last reader and the
last writer of each unit are kept in arrays, so one lookup is a few numpy operations whatever was
before.
"""

import numpy as np
import numpy.typing as npt

from daedal.compiler.link.placed import BeatRange, PlacedInstruction
from daedal.isa.hazards import NO_INSTRUCTION
from daedal.isa.scratchpad import scratchpads
from daedal.isa.table import Unit
from daedal.isa.variant import Variant

__all__ = ["NUM_QUEUES", "Hazards"]

NUM_QUEUES = 4
"""LOAD, GEMM, ALU and STORE."""

_Indices = npt.NDArray[np.int32]


class Hazards:
    """The last accesses of each unit, by instruction number."""

    def __init__(self, variant: Variant, region_bytes: tuple[int, int, int, int]) -> None:
        depths = {memory: pad.depth_rows for memory, pad in scratchpads(variant).items()}
        self._written = {memory: _table(NUM_QUEUES, depth) for memory, depth in depths.items()}
        self._read = {memory: _table(NUM_QUEUES, depth) for memory, depth in depths.items()}
        # Only STORE writes memory and only LOAD reads it; FETCH reads what nobody writes.
        beats = [size // variant.bus_bytes for size in region_bytes]
        self._stored = [_table(1, count)[0] for count in beats]
        self._loaded = [_table(1, count)[0] for count in beats]

    def conflicts(self, item: PlacedInstruction) -> list[int]:
        """Per unit, the latest instruction that `item` has to wait for, or NO_INSTRUCTION."""
        latest = np.full(NUM_QUEUES, NO_INSTRUCTION, dtype=np.int32)
        for rows in item.rows:
            part = slice(rows.begin, rows.end)
            np.maximum(latest, self._written[rows.memory][:, part].max(axis=1), out=latest)
            if rows.writes:
                np.maximum(latest, self._read[rows.memory][:, part].max(axis=1), out=latest)
        found = [int(number) for number in latest]
        found[item.unit] = NO_INSTRUCTION
        if item.beats is not None:
            loads = item.unit is Unit.LOAD
            table = self._stored if loads else self._loaded
            other = Unit.STORE if loads else Unit.LOAD
            found[other] = max(found[other], int(_view(table, item.beats).max()))
        return found

    def record(self, item: PlacedInstruction, number: int) -> None:
        """`item` is instruction `number` of the program."""
        for rows in item.rows:
            if rows.writes:
                self._written[rows.memory][item.unit, rows.begin : rows.end] = number
            if rows.reads:
                self._read[rows.memory][item.unit, rows.begin : rows.end] = number
        if item.beats is not None:
            table = self._loaded if item.unit is Unit.LOAD else self._stored
            _view(table, item.beats)[...] = number


def _table(units: int, size: int) -> _Indices:
    return np.full((units, size), NO_INSTRUCTION, dtype=np.int32)


def _view(tables: list[_Indices], beats: BeatRange) -> _Indices:
    """The entries of a strided range, writable."""
    table = tables[beats.base]
    last = (beats.blocks - 1) * beats.block_stride + (beats.rows - 1) * beats.row_stride
    assert beats.offset >= 0 and beats.offset + last + beats.cols <= len(table), (
        f"{beats} leaves its region of {len(table)} beats"
    )
    step = table.itemsize
    return np.lib.stride_tricks.as_strided(
        table[beats.offset :],
        (beats.blocks, beats.rows, beats.cols),
        (beats.block_stride * step, beats.row_stride * step, step),
    )
