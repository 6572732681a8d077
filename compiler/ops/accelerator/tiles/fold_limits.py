"""`FoldLimits`: into how many instructions a nest is split at most.

An instruction has `LOOPS` hardware loops, and unrolls the others into micro-ops
(`daedal.compiler.codegen.nest`).
"""

from collections.abc import Sequence

import numpy as np

from daedal.compiler.codegen.operations import fold_limits
from daedal.compiler.graph.window_extents import Extent
from daedal.compiler.ops.space import Column
from daedal.isa.table import LOOPS, Opcode
from daedal.isa.variant import Variant

__all__ = ["FoldLimits"]


class FoldLimits:
    """The limits of one unit."""

    def __init__(self, variant: Variant, unit: Opcode) -> None:
        self._max_uops, self._max_extent = fold_limits(variant, unit)

    def most(self, outputs: Sequence[Extent], sums: Sequence[Extent] = ()) -> Column:
        """Most instructions of a nest of these loops, of which `sums` accumulate.

        Adjacent loops are fused only if both or none accumulate. Where no loop can get too long for
        the hardware, the longest loops are hardware loops; where the micro-ops of the others fit,
        there is one instruction.
        """
        loops = np.stack(np.broadcast_arrays(*outputs, *sums))
        count = len(outputs)
        long = (np.prod(loops[:count], axis=0) > self._max_extent) | (
            np.prod(loops[count:], axis=0) > self._max_extent
        )
        unrolled = np.prod(np.sort(loops, axis=0)[:-LOOPS], axis=0)
        every = np.prod(loops, axis=0)
        found: Column = np.where(
            long, every, np.where(unrolled <= self._max_uops, 1, unrolled)
        ).astype(np.int64)
        return found
