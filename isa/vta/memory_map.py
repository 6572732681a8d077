"""Maps the memory segments of a VTA program to the regions of our program.

Segments that are written go to `outputs`, those that are only read to `inputs`; the translator
fills the constants and the workspace. A segment keeps its address modulo the page size.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from daedal.common.errors import ProgramError
from daedal.isa.latencies import PAGE_BYTES
from daedal.isa.protocols import next_page
from daedal.isa.table import BASES
from daedal.isa.vta.dump import VtaSegment
from daedal.isa.vta.operations import Move, Operation

__all__ = ["MemoryMap", "SegmentPlace"]

_INPUTS, _OUTPUTS = BASES.index("inputs"), BASES.index("outputs")


@dataclass(frozen=True)
class SegmentPlace:
    """Where a segment lies in the translated program: base address register and offset."""

    segment: VtaSegment
    base: int
    offset_bytes: int

    @property
    def end_bytes(self) -> int:
        """Offset past the segment."""
        return self.offset_bytes + len(self.segment.data)


class MemoryMap:
    """Segments by physical address, and their places once `place` was called."""

    def __init__(self, segments: Sequence[VtaSegment]) -> None:
        self._segments = sorted(segments, key=lambda segment: segment.address)
        self._starts = [segment.address for segment in self._segments]
        self._places: dict[int, SegmentPlace] = {}
        self._sizes = {_INPUTS: 0, _OUTPUTS: 0}

    @property
    def region_bytes(self) -> tuple[int, int]:
        """Sizes of the regions `inputs` and `outputs`."""
        return self._sizes[_INPUTS], self._sizes[_OUTPUTS]

    def find(self, address: int, end: int) -> int:
        """Number of the segment that holds the bytes. Raises ProgramError where none does."""
        number = bisect_right(self._starts, address) - 1
        if number < 0 or end > self._segments[number].end:
            raise ProgramError(
                f"the bytes {address:#x} to {end - 1:#x} must lie in one memory segment of the "
                "program, and do not"
            )
        return number

    def read(self, address: int, size: int) -> bytes:
        """Initial contents of memory."""
        segment = self._segments[self.find(address, address + size)]
        begin = address - segment.address
        return segment.data[begin : begin + size]

    def place(self, operations: Sequence[Operation]) -> tuple[SegmentPlace, ...]:
        """Assign a place to every segment that an operation moves, in the order of addresses."""
        stored: dict[int, bool] = {}
        for item in operations:
            if isinstance(item, Move) and item.y:
                number = self.find(item.address, item.end)
                stored[number] = stored.get(number, False) or item.store
        for number in sorted(stored):
            segment = self._segments[number]
            base = _OUTPUTS if stored[number] else _INPUTS
            begin = next_page(self._sizes[base])
            begin += segment.address % PAGE_BYTES
            self._places[number] = SegmentPlace(segment, base, begin)
            self._sizes[base] = begin + next_page(len(segment.data))
        return tuple(self._places[number] for number in sorted(self._places))

    def locate(self, move: Move) -> tuple[int, int]:
        """Base address register and byte offset of a move that was placed."""
        place = self._places[self.find(move.address, move.end)]
        return place.base, place.offset_bytes + move.address - place.segment.address
