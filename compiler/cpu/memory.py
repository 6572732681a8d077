"""`MemoryPlan`: where tensors lie in one block of memory, by the steps in which they are needed.

Constants come first. Tensors that are never needed at once share bytes: the largest is placed
first, each at the lowest free offset (best fit is no better on networks that were tried).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from daedal.artifact.host_code import HostBuffer

__all__ = ["MemoryPlan"]

ALIGN = 64


@dataclass
class _Storage:
    """Bytes of one or more tensors with the same elements, needed from `first` to `last`."""

    size: int
    first: int
    last: int
    data: bytes | None = None
    offset: int = 0


class MemoryPlan:
    """Collects tensors, then places them."""

    def __init__(self) -> None:
        self._storages: list[_Storage] = []
        self._buffers: list[tuple[int, str, tuple[int, ...]]] = []

    def add(self, dtype: str, shape: Sequence[int], time: int) -> int:
        """A tensor that step `time` writes; its number."""
        size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        self._storages.append(_Storage(size, time, time))
        return self._append(len(self._storages) - 1, dtype, shape)

    def add_constant(self, value: npt.NDArray[Any]) -> int:
        """A tensor that is there from the beginning and stays."""
        data = np.ascontiguousarray(value)
        self._storages.append(_Storage(data.nbytes, 0, 0, data.tobytes()))
        return self._append(len(self._storages) - 1, data.dtype.name, value.shape)

    def view(self, number: int, shape: Sequence[int]) -> int:
        """The same elements in another shape."""
        storage, dtype, known = self._buffers[number]
        return number if known == tuple(shape) else self._append(storage, dtype, shape)

    def kind(self, number: int) -> tuple[str, tuple[int, ...]]:
        """Dtype and shape of a tensor."""
        _, dtype, shape = self._buffers[number]
        return dtype, shape

    def read(self, number: int, time: int) -> None:
        """Step `time` needs the tensor."""
        storage = self._storages[self._buffers[number][0]]
        storage.last = max(storage.last, time)

    def placed(self) -> tuple[tuple[HostBuffer, ...], bytes, int]:
        """All tensors, the bytes of the constants, and the size of the memory."""
        constants = bytearray()
        for storage in self._storages:
            if storage.data is not None:
                storage.offset = len(constants)
                constants += storage.data + bytes(-len(storage.data) % ALIGN)
        size = self._place_others(len(constants))
        buffers = tuple(
            HostBuffer(self._storages[storage].offset, dtype, shape)
            for storage, dtype, shape in self._buffers
        )
        return buffers, bytes(constants), size

    def _place_others(self, begin: int) -> int:
        placed: list[_Storage] = []
        end = begin
        others = [item for item in self._storages if item.data is None]
        for item in sorted(others, key=lambda item: -item.size):
            item.offset = begin
            near = [
                other for other in placed if other.first <= item.last and item.first <= other.last
            ]
            for other in sorted(near, key=lambda other: other.offset):
                if item.offset + item.size <= other.offset:
                    break
                item.offset = max(item.offset, -(-(other.offset + other.size) // ALIGN) * ALIGN)
            placed.append(item)
            end = max(end, item.offset + item.size)
        return end

    def _append(self, storage: int, dtype: str, shape: Sequence[int]) -> int:
        self._buffers.append((storage, dtype, tuple(shape)))
        return len(self._buffers) - 1
