"""Numbers of bfloat16 in numpy, which has no such type: as uint16, the upper halves of float32.

They are stored and converted, and nothing is computed of them. `codegen.llvm.scalars` has the same
conversions. Source: Intel, BFLOAT16 - Hardware Numerics Definition, 2018.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["BFLOAT16", "QUIET", "bfloat16_bits", "bfloat16_values"]

BFLOAT16 = "bfloat16"
QUIET = 1 << 6
"""The bit that keeps what is no number from becoming an infinity when other bits are cut off."""


def bfloat16_bits(values: npt.ArrayLike) -> npt.NDArray[np.uint16]:
    """Float32 rounded to the nearest bfloat16, to the even one of two; not-a-number stays so."""
    array = np.asarray(values, np.float32)
    bits = array.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + (bits >> 16 & 1)) >> 16
    found: npt.NDArray[np.uint16]
    found = np.where(np.isnan(array), bits >> 16 | QUIET, rounded).astype(np.uint16)
    return found


def bfloat16_values(bits: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Bfloat16 as float32, which has all of its numbers."""
    return (np.asarray(bits).astype(np.uint32) << 16).view(np.float32)
