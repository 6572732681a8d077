"""When constants that tiles of a layer load again stay on chip.

The linker (`daedal.compiler.link.on_chip.kept_constants`) and the estimates of schedules ask the
same. Reasons: docs/adr/0038-nothing-loaded-again.md.
"""

import numpy as np
import numpy.typing as npt

from daedal.isa.scratchpad import Memory

__all__ = ["LEAST_BUSY", "SHARES", "least_saved"]

SHARES = {Memory.WGT: 1 / 4, Memory.PAR: 1 / 2}
"""The part of a scratchpad's rows that constants may keep: the LOADs of other layers need rows,
too, to be early."""

LEAST_BUSY = 0.95
"""Of the cycles of the busiest unit, those of the bus with which words are worth saving."""

_LEAST_CYCLES, _LEAST_SHARE = 200, 1 / 16


def least_saved(bus: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Cycles of the bus that must be saved where it has `bus`: with fewer, other LOADs lose more by
    coming at other times. Chosen by the ledger."""
    return np.minimum(_LEAST_CYCLES, _LEAST_SHARE * np.asarray(bus, np.float64))
