"""`PlacedProgram`: placed instructions with their memory, and what kernels ask of them as arrays.

Orders of the same instructions share what is known of each.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from daedal.compiler.cost.instructions import InstructionCost
from daedal.compiler.link.placement.placed import PlacedInstruction
from daedal.compiler.link.placement.touched_rows import TouchedRows
from daedal.isa.memory_model import MemoryModel
from daedal.isa.variant import Variant

__all__ = ["BEAT_FIELDS", "PlacedProgram"]

BEAT_FIELDS = 6
_NO_BEATS = (0,) * BEAT_FIELDS

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class PlacedProgram:
    """Instructions in program order, before tokens are inserted.

    Attributes
    ----------
    region_bytes : of each memory region.
    touched : scratchpad rows of `items`.
    beats : ``(instructions, BEAT_FIELDS)``: bus words of memory that is ever written, as in
        `BeatRange`, with the words of all regions numbered one region after the other.
    unread : whether an instruction is a STORE that will store nothing.
    """

    variant: Variant
    region_bytes: tuple[int, int, int, int]
    items: list[PlacedInstruction]
    touched: TouchedRows
    beats: Integers
    unread: npt.NDArray[np.bool_]
    _cycles: dict[MemoryModel, Integers] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        variant: Variant,
        region_bytes: tuple[int, int, int, int],
        items: Sequence[PlacedInstruction],
        unread: Collection[int] = (),
    ) -> "PlacedProgram":
        """A program, and the numbers of its STOREs that will store nothing."""
        ends = _region_ends(variant, region_bytes)
        beats: list[int] = []
        for item in items:
            moved = item.beats
            if moved is None:
                beats += _NO_BEATS
                continue
            base, offset, *extents = moved
            begin = ends[base]
            assert offset >= 0 and begin + moved.end <= ends[base + 1], f"{moved} leaves its region"
            beats += (begin + offset, *extents)
        gone = np.zeros(len(items), dtype=np.bool_)
        gone[list(unread)] = True
        return cls(
            variant,
            region_bytes,
            list(items),
            TouchedRows.of(variant, items),
            np.array(beats, dtype=np.int64).reshape(-1, BEAT_FIELDS),
            gone,
        )

    @property
    def num_words(self) -> int:
        """Bus words of all regions."""
        return _region_ends(self.variant, self.region_bytes)[-1]

    @property
    def units(self) -> Integers:
        """The unit of each instruction."""
        return self.touched.units

    def cycles(self, memory: MemoryModel) -> Integers:
        """Of each instruction, by `InstructionCost.of` with `memory` behind the machine."""
        known = self._cycles.get(memory)
        if known is None:
            known = InstructionCost(self.variant, memory).of_each(x.instruction for x in self.items)
            self._cycles[memory] = known
        return known

    def reordered(self, order: Integers) -> "PlacedProgram":
        """The instructions with these numbers."""
        return PlacedProgram(
            self.variant,
            self.region_bytes,
            [self.items[number] for number in order.tolist()],
            self.touched.reordered(order),
            self.beats[order],
            self.unread[order],
            {memory: cycles[order] for memory, cycles in self._cycles.items()},
        )

    def replaced(
        self, numbers: Sequence[int], items: Sequence[PlacedInstruction]
    ) -> "PlacedProgram":
        """`items`, each the instruction with that number, or a part of it."""
        places, others = list[int](), list[PlacedInstruction]()
        for number, item in zip(numbers, items, strict=True):
            if item is self.items[number]:
                places.append(number)
            else:
                places.append(len(self.items) + len(others))
                others.append(item)
        both = self.joined(PlacedProgram.of(self.variant, self.region_bytes, others))
        return both.reordered(np.array(places, dtype=np.int64))

    def joined(self, others: "PlacedProgram") -> "PlacedProgram":
        """The instructions, then others of the same machine and memory."""
        return PlacedProgram(
            self.variant,
            self.region_bytes,
            [*self.items, *others.items],
            self.touched.joined(others.touched),
            np.concatenate([self.beats, others.beats]),
            np.concatenate([self.unread, others.unread]),
            {
                memory: np.concatenate([cycles, others.cycles(memory)])
                for memory, cycles in self._cycles.items()
            },
        )


def _region_ends(variant: Variant, region_bytes: Sequence[int]) -> list[int]:
    """The words of the regions before each, and of all."""
    ends: list[int] = np.cumsum([0, *(n // variant.bus_bytes for n in region_bytes)]).tolist()
    return ends
