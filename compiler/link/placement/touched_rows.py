"""`TouchedRows`: the rows that the instructions of a program touch, as arrays for kernels."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np
import numpy.typing as npt

from daedal.compiler.link.placement.placed import PlacedInstruction
from daedal.isa.scratchpad import scratchpads
from daedal.isa.variant import Variant

__all__ = ["ROW_FIELDS", "TouchedRows"]

ROW_FIELDS = 5

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class TouchedRows:
    """Rows of all scratchpads, numbered one scratchpad after the other.

    Attributes
    ----------
    units : of each instruction.
    counts : how many accesses each instruction has in `accesses`.
    accesses : ``(accesses, ROW_FIELDS)``: the row that the runs of each count from, where they
        begin and end in `ranges`, and whether it reads and writes.
    ranges : first row, and the one past the last, of each run.
    depth : rows of all scratchpads.
    """

    units: Integers
    counts: Integers
    accesses: Integers
    ranges: Integers
    depth: int

    @classmethod
    def of(cls, variant: Variant, items: Sequence[PlacedInstruction]) -> "TouchedRows":
        """Those of a program."""
        pads = scratchpads(variant)
        ends = np.cumsum([0, *(pad.depth_rows for pad in pads.values())]).tolist()
        spans = dict(zip(pads, pairwise(ends), strict=True))
        units: list[int] = []
        counts: list[int] = []
        accesses: list[int] = []
        # By the identity of runs, which `items` keep alive: where they are in `ranges`.
        known: dict[int, tuple[int, int]] = {}
        ranges: list[int] = []
        for instruction, _, touched, _, _ in items:
            units.append(instruction.unit)
            counts.append(len(touched))
            for memory, first, runs, reads, writes in touched:
                low, high = spans[memory]
                assert first + runs[0][0] >= 0 and first + runs[-1][1] <= high - low, (
                    f"{touched} leaves {memory}"
                )
                place = known.get(id(runs))
                if place is None:
                    begin = len(ranges) // 2
                    place = known[id(runs)] = begin, begin + len(runs)
                    ranges += chain.from_iterable(runs)
                accesses += (low + first, *place, reads, writes)

        def array(values: list[int]) -> Integers:
            return np.array(values, dtype=np.int64)

        rows = array(accesses).reshape(-1, ROW_FIELDS)
        return cls(array(units), array(counts), rows, array(ranges), ends[-1])

    def reordered(self, order: Integers) -> "TouchedRows":
        """Those of the instructions with these numbers."""
        counts = self.counts[order]
        begins = (np.cumsum(self.counts) - self.counts)[order]
        places = np.repeat(begins - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
        return TouchedRows(
            self.units[order], counts, self.accesses[places], self.ranges, self.depth
        )

    def joined(self, others: "TouchedRows") -> "TouchedRows":
        """Those of these instructions, then of others of the variant."""
        behind = len(self.ranges) // 2
        moved = others.accesses + np.array([0, behind, behind, 0, 0])
        return TouchedRows(
            np.concatenate([self.units, others.units]),
            np.concatenate([self.counts, others.counts]),
            np.concatenate([self.accesses, moved]),
            np.concatenate([self.ranges, others.ranges]),
            self.depth,
        )
