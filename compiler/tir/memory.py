"""The interpreter's memory: the backed window of a buffer, which checks every access.

Elements are addressed by a *place*, their number within the window in C order. Indices come as
arrays that broadcast against each other, one per dimension; places have the shape that they
broadcast to.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from daedal.compiler.tir.dtype import numpy_dtype
from daedal.compiler.tir.errors import ExecutionError
from daedal.compiler.tir.evaluate import Array, numpy_number
from daedal.compiler.tir.expr import Buffer

__all__ = ["Memory", "Places"]

Places = npt.NDArray[np.int64]


class Memory:
    """The elements of `buffer` from `origin` on, and which of them were written.

    Parameters
    ----------
    shape : extents of the window.
    origin : its first element, in logical indices.
    data : its contents, all of it written; None for new memory.
    """

    def __init__(
        self,
        buffer: Buffer,
        shape: tuple[int, ...],
        origin: tuple[int, ...],
        data: npt.NDArray[np.generic] | None = None,
    ) -> None:
        self.buffer = buffer
        self.shape, self.origin = shape, origin
        size = int(np.prod(shape))
        self.data: npt.NDArray[Any]
        if data is None:
            self.data = np.zeros(size, dtype=numpy_dtype(buffer.dtype))
        else:
            self.data = np.ascontiguousarray(data).reshape(-1)
        self.written = np.full(size, data is not None)
        self._numbers: Places | None = None

    @property
    def array(self) -> npt.NDArray[Any]:
        """The elements in the shape of the window."""
        return self.data.reshape(self.shape)

    @property
    def numbers(self) -> Places:
        """Scratch array with a number per place, to mark places; its contents are undefined."""
        if self._numbers is None:
            self._numbers = np.zeros(self.data.size, dtype=np.int64)
        return self._numbers

    def places(self, indices: list[Array]) -> Places:
        """The places of elements.

        Raises
        ------
        ExecutionError
            One is outside the buffer or its window.
        """
        result: Places = np.zeros((), dtype=np.int64)
        for dim, index in enumerate(indices):
            own = np.asarray(index, dtype=np.int64) - self.origin[dim]
            low, high = int(own.min()), int(own.max())
            begin, size = self.origin[dim], self.shape[dim]
            last = min(size, self.buffer.shape[dim] - begin) - 1
            if low < max(0, -begin) or high > last:
                raise self._outside(dim, low + begin, high + begin)
            result = result * size + own
        return result

    def read(self, indices: list[Array], pad_value: int | float | None) -> Array:
        """The elements at `indices`; outside the buffer `pad_value`, if there is one.

        Raises
        ------
        ExecutionError
            An element is outside, or was never written.
        """
        if pad_value is None:
            return self._defined(self.places(indices))
        inside = np.asarray(True)
        backed: list[Array] = []
        for index, size in zip(indices, self.buffer.shape, strict=True):
            inside = inside & (np.asarray(index) >= 0) & (np.asarray(index) < size)
        if not inside.any():
            return np.full(inside.shape, self._number(pad_value))
        for dim, index in enumerate(indices):
            begin, size = self.origin[dim], self.shape[dim]
            near = np.clip(index, max(begin, 0), min(begin + size, self.buffer.shape[dim]) - 1)
            missed = inside & (near != index)
            if missed.any():
                wrong = np.broadcast_to(index, missed.shape)[missed]
                raise self._outside(dim, int(wrong.min()), int(wrong.max()))
            backed.append(near)
        places = self.places(backed)
        if not (self.written[places] | ~inside).all():
            raise self._undefined()
        return np.where(inside, self.data[places], self._number(pad_value))

    def _number(self, value: int | float) -> Array:
        return numpy_number(value, self.buffer.dtype)

    def distinct(self, places: Places) -> bool:
        """Whether no place occurs twice."""
        if places.size == 1:
            return True
        own = np.arange(places.size).reshape(places.shape)
        self.numbers[places] = own
        return bool((self.numbers[places] == own).all())

    def _defined(self, places: Places) -> Array:
        if not self.written[places].all():
            raise self._undefined()
        return self.data[places]

    def _undefined(self) -> ExecutionError:
        return ExecutionError(f"{self.buffer.name!r} is read before it is written")

    def _outside(self, dim: int, low: int, high: int) -> ExecutionError:
        begin, size = self.origin[dim], self.shape[dim]
        return ExecutionError(
            f"index {low}..{high} is outside {begin}..{begin + size - 1} "
            f"(dimension {dim} of {self.buffer.name!r})"
        )
