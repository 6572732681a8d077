"""Finds the earlier instructions that an instruction depends on: hazards on rows and on memory.

For every scratchpad row, and every bus word of writable memory, arrays hold the last reader and the
last writer of each unit. So a lookup takes a few numpy operations, however long the program is.
"""

import numpy as np
import numpy.typing as npt

from daedal.compiler.link.placed import PlacedInstruction
from daedal.compiler.link.transfer_beats import entries
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
        # Per scratchpad, one array per unit for its last writer, then one for its last reader.
        self._rows = {
            memory: _table(2 * NUM_QUEUES, pad.depth_rows)
            for memory, pad in scratchpads(variant).items()
        }
        # Only STORE writes memory and only LOAD reads it; FETCH reads memory that is never written.
        beats = [size // variant.bus_bytes for size in region_bytes]
        self._stored = [_table(1, count)[0] for count in beats]
        self._loaded = [_table(1, count)[0] for count in beats]

    def conflicts(self, item: PlacedInstruction) -> list[int]:
        """Per unit, the latest instruction that `item` has to wait for, or NO_INSTRUCTION."""
        latest = [NO_INSTRUCTION] * NUM_QUEUES
        for memory, begin, end, _, writes in item.rows:
            count = 2 * NUM_QUEUES if writes else NUM_QUEUES
            rows = self._rows[memory][:count, begin:end].max(axis=1).tolist()
            for number, source in enumerate(rows):
                if source > latest[number % NUM_QUEUES]:
                    latest[number % NUM_QUEUES] = source
        unit = item.unit
        latest[unit] = NO_INSTRUCTION
        if item.beats is not None:
            loads = unit is Unit.LOAD
            table = self._stored if loads else self._loaded
            other = Unit.STORE if loads else Unit.LOAD
            latest[other] = max(
                latest[other], int(entries(table[item.beats.base], item.beats).max())
            )
        return latest

    def record(self, item: PlacedInstruction, number: int) -> None:
        """Record the accesses of `item`, instruction `number` of the program."""
        unit = item.unit
        for memory, begin, end, reads, writes in item.rows:
            if writes:
                self._rows[memory][unit, begin:end] = number
            if reads:
                self._rows[memory][NUM_QUEUES + unit, begin:end] = number
        if item.beats is not None:
            table = self._loaded if unit is Unit.LOAD else self._stored
            entries(table[item.beats.base], item.beats)[...] = number


def _table(units: int, size: int) -> _Indices:
    return np.full((units, size), NO_INSTRUCTION, dtype=np.int32)
