"""Which tiles take turns in pairs.

The linker (`daedal.compiler.link.ordering.follow_pairs`), the schedule of a convolution, and the
choice of its tile ask the same.
"""

from typing import TypeVar

import numpy as np
import numpy.typing as npt

__all__ = ["in_pairs", "weights_that_stay"]

_Rows = TypeVar("_Rows", int, npt.NDArray[np.int64])


def in_pairs(rows: _Rows, depth: int) -> npt.NDArray[np.bool_]:
    """Whether two tiles of `rows` rows, but not four, fit a half of the `depth` rows of the
    accumulators, of which a quarter is for another map that is added, and for what a norm computes
    in between."""
    found: npt.NDArray[np.bool_] = np.less_equal(16 * rows, 3 * depth) & np.less(depth, 8 * rows)
    return found


def weights_that_stay(steps: int, places: int) -> int:
    """How many of the weights of `steps` steps stay on chip for all tiles, if there are `places`
    for weights. The others have one place if a step with weights that stay lies between any two of
    them: they are loaded meanwhile. Else they have two."""
    others = max(steps - (places - 1), 0)
    return min(places - (1 if 2 * others <= steps else 2), steps)
