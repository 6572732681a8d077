"""Elements in external memory: converts integer arrays to dense little-endian bytes and back.

Elements have 4, 8, 16, 32, 64 or 128 bits; two 4-bit elements share a byte, the first in the low
nibble.
"""

import numpy as np
import numpy.typing as npt

from daedal.isa.numerics import IntArray

__all__ = ["from_memory", "to_memory"]


def from_memory(
    raw: npt.NDArray[np.uint8], bits: int, *, signed: bool, as_objects: bool = False
) -> npt.NDArray[np.int64]:
    """Bytes (n, row_bytes) to elements (n, row_bytes * 8 // bits).

    With `as_objects` the elements are Python integers of any width (dtype object).
    """
    count = len(raw)
    if as_objects or bits > 64:
        size = bits // 8
        flat = raw.reshape(-1, size).astype(object)
        value = sum(flat[:, k] * (1 << (8 * k)) for k in range(size))
        return np.asarray(value, dtype=object).reshape(count, raw.shape[1] * 8 // bits)
    if bits == 4:
        halves = np.stack([raw & 0xF, raw >> 4], axis=-1).astype(np.int64)
        pairs = halves.reshape(count, 2 * raw.shape[1])
        return np.where(pairs >= 8, pairs - 16, pairs) if signed else pairs
    kind = np.dtype(f"<{'i' if signed else 'u'}{bits // 8}")
    return np.ascontiguousarray(raw).view(kind).astype(np.int64)


def to_memory(values: IntArray, bits: int) -> npt.NDArray[np.uint8]:
    """Elements (n, k) to bytes (n, k * bits // 8), truncated to `bits`."""
    if bits == 4:
        nibbles = (values & 0xF).astype(np.uint8)
        return np.asarray(nibbles[:, 0::2] | nibbles[:, 1::2] << 4, dtype=np.uint8)
    narrow = np.ascontiguousarray(values).astype(np.dtype(f"<i{bits // 8}"))
    return narrow.view(np.uint8).reshape(len(values), values.shape[1] * bits // 8)
