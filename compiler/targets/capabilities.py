"""`Capabilities`: which functions a variant's options let the accelerator compute.

Read by the pass that lowers quantized operators, and by all that compare variants: those with equal
capabilities leave the same operators to the host, if their scratchpads hold the others.
"""

from typing import NamedTuple

from daedal.compiler.ops.accelerator.vector.rows import computes_rows
from daedal.isa.variant import Variant

__all__ = ["Capabilities"]


class Capabilities(NamedTuple):
    """What options make possible.

    Attributes
    ----------
    tables : functions of one element, by LOOKUP.
    wide : results of REQUANTIZE that have 16 bits.
    rows : softmax and norms.
    """

    tables: bool
    wide: bool
    rows: bool

    @classmethod
    def of(cls, variant: Variant) -> "Capabilities":
        """Those of a variant."""
        wide = variant.units.wide_requantize and variant.array.accumulator_bits == 32
        return cls(variant.memory.tables > 0, wide, computes_rows(variant))

    def includes(self, other: "Capabilities") -> bool:
        """Whether all of `other` are there, too."""
        return all(mine or not its for mine, its in zip(self, other, strict=True))
