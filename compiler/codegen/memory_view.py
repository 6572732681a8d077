"""`MemoryView`: how a parameter's rows lie in its tensor where they do not follow each other."""

from dataclasses import dataclass

__all__ = ["MemoryView"]


@dataclass(frozen=True)
class MemoryView:
    """Rows at strides of their own, which may overlap: a LOAD can read a byte into several rows.

    Parameters
    ----------
    strides_beats : per dimension of the parameter but those of a row, beats from one element to the
        next.
    size_bytes : bytes of the tensor.
    offset_beats : where the first row begins.
    """

    strides_beats: tuple[int, ...]
    size_bytes: int
    offset_beats: int = 0
