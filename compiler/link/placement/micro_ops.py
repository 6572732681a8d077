"""Micro-op sequences: deduplicated into one table in memory, and kept resident on chip.

If all sequences of a program fit the micro-op memory, each is loaded once, together with the other
new ones of its layer. If they do not, a layer's missing sequences replace older ones (a ring
buffer). A layer whose own sequences do not fit loads them one by one, on demand.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from daedal.common.errors import ScheduleError
from daedal.compiler.codegen.segment import UopSequence
from daedal.isa.microcode import encode_uops
from daedal.isa.scratchpad import UOP_BYTES, Memory, scratchpad
from daedal.isa.table import MICRO_OPS, Unit
from daedal.isa.variant import Variant

__all__ = ["MicroOpMemory", "UopLoad", "uop_memory"]


def uop_memory(unit: Unit) -> Memory:
    """The micro-op memory of GEMM or the ALU."""
    return Memory.UOP_GEMM if unit is Unit.GEMM else Memory.UOP_ALU


@dataclass(frozen=True)
class UopLoad:
    """A load of `count` rows, from `table_row` of the table to `row` of the micro-op memory."""

    table_row: int
    row: int
    count: int


class MicroOpMemory:
    """The table of one unit's sequences, and which of them are on chip now."""

    def __init__(self, variant: Variant, unit: Unit) -> None:
        pad = scratchpad(variant, uop_memory(unit))
        self._variant = variant
        self._unit = unit
        self._per_row = pad.elements
        self._depth = pad.depth_rows
        self._table: dict[UopSequence, int] = {}
        self._table_rows = 0
        self._resident: dict[UopSequence, int] = {}
        self._next = 0
        # Hashing a sequence takes as long as its micro-ops are many, and instructions share them.
        self._rows_of: dict[int, tuple[UopSequence, int]] = {}

    @property
    def uops_per_row(self) -> int:
        """Micro-ops of one row of the memory."""
        return self._per_row

    def rows(self, sequence: UopSequence) -> int:
        """Rows that a sequence takes: it occupies whole rows."""
        return -(-len(sequence) // self._per_row)

    def row_of(self, sequence: UopSequence) -> int | None:
        """The row where a sequence is on chip, or None."""
        known = self._rows_of.get(id(sequence))
        if known is not None:
            return known[1]
        row = self._resident.get(sequence)
        if row is not None:
            # It is kept alive, so that its `id` stays unique.
            self._rows_of[id(sequence)] = sequence, row
        return row

    def bring_in(self, sequences: Iterable[UopSequence], where: str) -> list[UopLoad]:
        """Loads that make all `sequences` resident together; empty if they do not fit."""
        objects = {id(sequence): sequence for sequence in sequences}
        wanted = list(dict.fromkeys(objects.values()))
        for sequence in wanted:
            self._add(sequence, where)
        if sum(self.rows(sequence) for sequence in wanted) > self._depth:
            return []
        missing = [sequence for sequence in wanted if sequence not in self._resident]
        count = sum(self.rows(sequence) for sequence in missing)
        begin = self._next if self._next + count <= self._depth else 0
        if set(self._overlapping(begin, count)) & set(wanted):
            self._resident.clear()
            self._rows_of.clear()
            begin, missing = 0, wanted
        return self._place(missing, begin)

    def bring_one(self, sequence: UopSequence) -> list[UopLoad]:
        """The load that makes one sequence resident, if it is not."""
        if self.row_of(sequence) is not None:
            return []
        begin = self._next if self._next + self.rows(sequence) <= self._depth else 0
        return self._place([sequence], begin)

    def table_bytes(self) -> bytes:
        """The bytes of the table, which is stored as a constant."""
        words = np.zeros(self._table_rows * self._per_row, dtype=np.uint64)
        names = [item.name for item in MICRO_OPS[self._unit]]
        for sequence, row in self._table.items():
            columns = dict(zip(names, zip(*sequence, strict=True), strict=True))
            begin = row * self._per_row
            words[begin : begin + len(sequence)] = encode_uops(self._variant, self._unit, columns)
        return words.astype("<u8").tobytes()

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return self._per_row * UOP_BYTES

    def _add(self, sequence: UopSequence, where: str) -> None:
        if sequence in self._table:
            return
        if self.rows(sequence) > self._depth:
            raise ScheduleError(
                f"a micro-op sequence must fit the {self._depth * self._per_row} micro-ops of "
                f"{self._unit.name}, not take {len(sequence)} ({where}); use smaller inner loops"
            )
        self._table[sequence] = self._table_rows
        self._table_rows += self.rows(sequence)

    def _overlapping(self, begin: int, count: int) -> list[UopSequence]:
        return [
            sequence
            for sequence, row in self._resident.items()
            if row < begin + count and begin < row + self.rows(sequence)
        ]

    def _place(self, missing: Sequence[UopSequence], begin: int) -> list[UopLoad]:
        """Place sequences contiguously from `begin`; merge loads contiguous on both sides."""
        loads: list[UopLoad] = []
        self._rows_of.clear()
        for sequence in self._overlapping(begin, sum(self.rows(item) for item in missing)):
            del self._resident[sequence]
        row = begin
        for sequence in missing:
            count, table_row = self.rows(sequence), self._table[sequence]
            self._resident[sequence] = row
            last = loads[-1] if loads else None
            if last is not None and last.table_row + last.count == table_row:
                loads[-1] = UopLoad(last.table_row, last.row, last.count + count)
            else:
                loads.append(UopLoad(table_row, row, count))
            row += count
            self._next = row
        return loads
