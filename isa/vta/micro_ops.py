"""`MicroOpCache`: sequences in the constants, loaded into the micro-op memory when first needed.

Sequences are relocatable (the instruction holds the bases), so equal tiles at different rows share
one. When the memory is full, the oldest sequences are evicted.
"""

from daedal.isa.instruction import Instruction
from daedal.isa.microcode import UopArray
from daedal.isa.numerics import IntArray
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import LoadMemory, Opcode, Unit
from daedal.isa.variant import Variant

__all__ = ["MicroOpCache", "relocatable"]


class MicroOpCache:
    """Micro-op memory of GEMM or ALU; `constants` grows by each new sequence."""

    def __init__(self, variant: Variant, unit: Unit, constants: bytearray) -> None:
        self._variant = variant
        self._memory = Memory.UOP_GEMM if unit is Unit.GEMM else Memory.UOP_ALU
        self._pad = scratchpad(variant, self._memory)
        self._constants = constants
        self._offsets: dict[bytes, int] = {}
        self._resident: dict[bytes, tuple[int, int]] = {}  # rows [begin, end), oldest first
        self._next_row = 0

    def place(self, words: UopArray) -> tuple[int, Instruction | None]:
        """Index of the sequence's first micro-op, and the LOAD for it if it is not resident."""
        data = words.tobytes()
        data += bytes(-len(data) % self._pad.row_bytes)
        known = self._resident.get(data)
        if known is not None:
            return known[0] * self._pad.elements, None
        num_rows = len(data) // self._pad.row_bytes
        assert num_rows <= self._pad.depth_rows, "sequences are cut to the micro-op memory"
        if self._next_row + num_rows > self._pad.depth_rows:
            self._next_row = 0
        begin, end = self._next_row, self._next_row + num_rows
        self._next_row = end
        for other, (first, last) in list(self._resident.items()):
            if first < end and begin < last:
                del self._resident[other]
        self._resident[data] = (begin, end)
        load = Instruction.of(
            Opcode.LOAD,
            memory=LoadMemory[self._memory.name],
            row=begin,
            offset_beats=self._offset(data) // self._variant.bus_bytes,
            blocks=1,
            rows=1,
            cols=num_rows,
        )
        return begin * self._pad.elements, load

    def _offset(self, data: bytes) -> int:
        """Offset of the sequence in the constants."""
        if data not in self._offsets:
            self._constants.extend(bytes(-len(self._constants) % self._variant.bus_bytes))
            self._offsets[data] = len(self._constants)
            self._constants.extend(data)
        return self._offsets[data]


def relocatable(column: IntArray) -> tuple[int, IntArray]:
    """Split a column of row numbers into its minimum and the offsets from it."""
    base = int(column.min())
    return base, column - base
