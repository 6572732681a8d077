"""`SiteLimits`: how many instructions the blocks of a function take at most, for one tile.

For operators whose tiles are far fewer than the limit allows: a bound that is easy to see, not a
close one. A copy takes at most one instruction for each row of each block of channels, more where
it is only padding. An operation is folded (`FoldLimits`). A reduction is at most one operation for
each step, and one more; padding at both ends cuts each into three.
"""

from collections.abc import Sequence
from math import prod

import numpy as np

from daedal.compiler.graph.window_extents import Extent
from daedal.compiler.ops.accelerator.tiles.fold_limits import FoldLimits
from daedal.compiler.ops.space import Column
from daedal.compiler.tir.sites import collect
from daedal.compiler.tir.stmt import PrimFunc
from daedal.isa.table import Opcode, instruction_layout
from daedal.isa.variant import Variant

__all__ = ["SiteLimits"]

_CUTS = 3

_LOOPS = 4
"""Operations of a reduction without windows: the first step, and one for each of its loops."""


class SiteLimits:
    """The limits of one function on one variant.

    Parameters
    ----------
    windows : whether it reduces over sliding windows.
    """

    def __init__(self, func: PrimFunc, variant: Variant, *, windows: bool = False) -> None:
        blocks = [site.block for site in collect(func.body)[0]]
        # The operands and the result are copied, too.
        self._copies = len(blocks) + len(func.params)
        steps = [prod(axis.extent for axis in block.reduce_vars) for block in blocks]
        self._operations = sum(
            1 if count == 1 else _CUTS * (count + 1) if windows else _LOOPS for count in steps
        )
        self._alu, self._gemm = (FoldLimits(variant, unit) for unit in (Opcode.ALU, Opcode.GEMM))
        self._max_pad = (1 << instruction_layout(variant, Opcode.LOAD)["pad_top"].width) - 1

    def most(
        self, vectors: Column, rows: Column, outputs: Sequence[Extent], sums: Sequence[Extent] = ()
    ) -> Column:
        """Of a tile, whose largest block touches `vectors` in so many `rows`, those of different
        blocks of channels counted apart; `outputs` and `sums` are its loops."""
        folded = np.maximum(self._alu.most(outputs, sums), self._gemm.most(outputs, sums))
        copied = np.minimum(2 * rows + vectors // self._max_pad, 2 * vectors)
        return np.asarray(self._copies * copied + self._operations * folded)
