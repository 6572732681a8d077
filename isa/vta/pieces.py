"""Splits loops that exceed our loop counters or micro-op memory, preserving the order."""

from collections.abc import Iterator
from dataclasses import dataclass

from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import Opcode, Unit, instruction_layout
from daedal.isa.variant import Variant
from daedal.isa.vta.operations import Nest

__all__ = ["Limits"]


@dataclass(frozen=True)
class Limits:
    """The largest loop extent and the longest micro-op sequence of one instruction."""

    extent: int
    num_uops: int

    @classmethod
    def of(cls, variant: Variant, unit: Unit) -> "Limits":
        """Limits of GEMM or ALU."""
        opcode, memory = _OF_UNIT[unit]
        pad = scratchpad(variant, memory)
        extent = instruction_layout(variant, opcode)["extent0"]
        return cls((1 << extent.width) - 1, pad.depth_rows * pad.elements)

    def fits(self, nest: Nest) -> bool:
        """Whether one instruction can run the nest."""
        return max(nest.extents) <= self.extent and nest.num_uops <= self.num_uops

    def pieces(self, nest: Nest) -> Iterator[Nest]:
        """Nests that fit and that, one after the other, do the same in the same order."""
        outer, inner = nest.extents
        whole = slice(0, nest.num_uops)
        if nest.num_uops <= self.num_uops and inner <= self.extent:
            for steps in _cuts(outer, self.extent):
                yield nest.part(steps, slice(0, inner), whole)
            return
        # Only the innermost loop can be split; the loops around it are unrolled.
        uops_fit = nest.num_uops <= self.num_uops
        for step in range(outer):
            here = slice(step, step + 1)
            for steps in _cuts(inner, self.extent if uops_fit else 1):
                for sequence in _cuts(nest.num_uops, self.num_uops):
                    yield nest.part(here, steps, sequence)


_OF_UNIT = {
    Unit.GEMM: (Opcode.GEMM, Memory.UOP_GEMM),
    Unit.ALU: (Opcode.ALU, Memory.UOP_ALU),
}


def _cuts(count: int, size: int) -> Iterator[slice]:
    for begin in range(0, count, size):
        yield slice(begin, min(begin + size, count))
