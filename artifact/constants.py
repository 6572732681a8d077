"""`HostConstant`: a constant of compiled code: values as stored, and how kernels read them.

Codes of one part for several levels of processors lay out the same weights in different ways. The
weights are stored once, and packed where the code is loaded.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Change", "Conversion", "HostConstant", "Packing", "Products", "Values", "changed_kind"]

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Values:
    """An array as it is stored: its numpy dtype, its shape, and its elements in order."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes

    @classmethod
    def of(cls, array: Array) -> "Values":
        """Those of an array."""
        return cls(array.dtype.name, array.shape, np.ascontiguousarray(array).tobytes())

    @property
    def array(self) -> Array:
        """The array, which cannot be written."""
        return np.frombuffer(self.data, self.dtype).reshape(self.shape)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything in it."""
        digest = hashlib.sha256(f"{self.dtype} {self.shape}\n".encode())
        digest.update(self.data)
        return digest.hexdigest()


@dataclass(frozen=True)
class Packing:
    """Another layout of an array.

    Each axis is filled up with zeros to its extent in `extents`. Each axis with a size in `blocks`,
    where 0 stands for none, then becomes two: the number of a block and the place in it. Where
    blocks do not divide the extent, the last one begins earlier. At last axis i of the result is
    axis ``order[i]``.
    """

    extents: tuple[int, ...]
    blocks: tuple[int, ...]
    order: tuple[int, ...]

    def check(self, shape: Sequence[int]) -> None:
        """Raise ValueError if arrays of this shape cannot be packed so."""
        count = len(self.extents)
        if len(shape) != count or len(self.blocks) != count:
            raise ValueError("a packing must have an extent and a block for each axis")
        if any(given > extent for given, extent in zip(shape, self.extents, strict=True)):
            raise ValueError("a packing must not cut axes")
        if any(not 0 <= size <= extent for size, extent in self._axes):
            raise ValueError("blocks must fit into their axes")
        if sorted(self.order) != list(range(len(self._split))):
            raise ValueError("the order of a packing must have each axis once")

    def shape(self, _shape: Sequence[int] = ()) -> tuple[int, ...]:
        """Of the result, for an array of any shape."""
        return tuple(self._split[axis] for axis in self.order)

    def applied(self, array: Array) -> Array:
        """The array in this layout."""
        if array.shape != self.extents:
            whole = np.zeros(self.extents, array.dtype)
            whole[tuple(slice(extent) for extent in array.shape)] = array
            array = whole
        for axis, (size, extent) in enumerate(self._axes):
            if size and extent % size:
                starts = np.minimum(np.arange(0, extent, size), extent - size)
                array = np.take(array, (starts[:, None] + np.arange(size)).ravel(), axis)
        return array.reshape(self._split).transpose(self.order)

    @property
    def _axes(self) -> list[tuple[int, int]]:
        """Block and extent of each axis."""
        return list(zip(self.blocks, self.extents, strict=True))

    @property
    def _split(self) -> tuple[int, ...]:
        """The extents between the second and the third step."""
        found = list[int]()
        for size, extent in self._axes:
            found += [-(-extent // size), size] if size else [extent]
        return tuple(found)


@dataclass(frozen=True)
class Products:
    """Matrices multiplied by another one from both sides: the last two axes of an array are X, and
    those of the result are ``matrix @ X @ matrix.T``.

    Attributes
    ----------
    matrix : its rows.
    dtype : of the result: float32, computed in float64, or an integer, computed in int64. Every
        processor gives the same bits: the operations and their order are fixed.
    """

    matrix: tuple[tuple[float, ...], ...]
    dtype: str

    def check(self, shape: Sequence[int]) -> None:
        """Raise ValueError if arrays of this shape cannot be multiplied so."""
        columns = {len(row) for row in self.matrix}
        if len(shape) < 2 or columns != {shape[-1]} or shape[-1] != shape[-2]:
            raise ValueError("a matrix must fit the last two axes of what it multiplies")

    def shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Of the result, for an array of this shape."""
        return (*shape[:-2], len(self.matrix), len(self.matrix))

    def applied(self, array: Array) -> Array:
        """The products."""
        is_whole = np.dtype(self.dtype).kind in "iu"
        kind = np.dtype(np.int64 if is_whole else np.float64)
        rows = [array[..., number, :].astype(kind) for number in range(array.shape[-2])]
        by_rows = np.stack(self._sums(rows, kind), -2)
        columns = [by_rows[..., number] for number in range(array.shape[-1])]
        with np.errstate(over="ignore"):
            return np.stack([item.astype(self.dtype) for item in self._sums(columns, kind)], -1)

    def _sums(self, parts: Sequence[Array], kind: np.dtype[Any]) -> list[Array]:
        """The sum of all parts, each times its number in a row, for each row of the matrix."""
        found = list[Array]()
        for row in self.matrix:
            total = np.zeros(parts[0].shape, kind)
            for factor, part in zip(row, parts, strict=True):
                if factor:
                    total += kind.type(factor) * part
            found.append(total)
        return found


@dataclass(frozen=True)
class Conversion:
    """An array of another `dtype`, which holds all its values."""

    dtype: str

    def check(self, _shape: Sequence[int]) -> None:
        """Nothing: arrays of any shape are converted."""

    def shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Of the result: the same."""
        return tuple(shape)

    def applied(self, array: Array) -> Array:
        """The array, converted."""
        return array.astype(self.dtype)


Change = Packing | Products | Conversion
"""What is done to stored values."""


def changed_kind(
    shape: Sequence[int], dtype: str, changes: Sequence[Change]
) -> tuple[tuple[int, ...], str]:
    """Shape and dtype of what `changes` make of an array."""
    for change in changes:
        shape = change.shape(shape)
        dtype = dtype if isinstance(change, Packing) else change.dtype
    return tuple(shape), dtype


@dataclass(frozen=True)
class HostConstant:
    """A constant in the memory of a code.

    Attributes
    ----------
    offset : its first byte.
    values : what is stored.
    changes : what is done to them, one after the other.
    """

    offset: int
    values: Values
    changes: tuple[Change, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """As it lies in memory."""
        return self._kind[0]

    @property
    def dtype(self) -> str:
        """As it lies in memory."""
        return self._kind[1]

    @property
    def _kind(self) -> tuple[tuple[int, ...], str]:
        return changed_kind(self.values.shape, self.values.dtype, self.changes)

    @property
    def end(self) -> int:
        """The first byte behind it."""
        return self.offset + math.prod(self.shape) * np.dtype(self.dtype).itemsize

    def put(self, memory: npt.NDArray[np.uint8]) -> None:
        """Put it into a block of memory."""
        array = self.values.array
        for change in self.changes:
            array = change.applied(array)
        own = memory[self.offset : self.end].view(self.dtype)
        own.reshape(self.shape)[...] = array
