"""`MemoryView`: the memory layout of a parameter whose rows are not contiguous, or narrow."""

from dataclasses import dataclass

__all__ = ["MemoryView"]


@dataclass(frozen=True)
class MemoryView:
    """Rows at arbitrary strides. They may overlap: a LOAD can read a byte into several rows.

    Parameters
    ----------
    strides_beats : beats from one element to the next, for each dimension except those of a row.
    size_bytes : bytes of the tensor.
    offset_beats : start of the first row.
    narrow : weights with 4 bits in memory, which LOAD expands.
    """

    strides_beats: tuple[int, ...]
    size_bytes: int
    offset_beats: int = 0
    narrow: bool = False
