"""`DeviceMemory`: the emulated GPU's memory, in memory of the host."""

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from daedal.common.errors import DeviceError
from daedal.sim.gpu.races import SHADOW_WORDS

__all__ = ["ALIGN", "DeviceMemory", "MemoryTable"]

ALIGN = 256

Words = npt.NDArray[np.int64]


@dataclass(frozen=True)
class MemoryTable:
    """Allocations by address, as `launch.Launch` has them."""

    begins: Words
    ends: Words
    shadows: Words


@dataclass(frozen=True)
class _Allocation:
    size: int
    memory: npt.NDArray[Any]
    shadow: npt.NDArray[np.int32] | None


class DeviceMemory:
    """Allocations, which hold `poison` at first.

    Parameters
    ----------
    poison : 4 bytes.
    shadows : whether each byte has a row of `races.Shadow`.
    """

    def __init__(self, poison: int, shadows: bool) -> None:
        self._poison = np.uint32(poison)
        self._shadows = shadows
        self._found: dict[int, _Allocation] = {}
        self._table: MemoryTable | None = None

    def allocate(self, size_bytes: int) -> int:
        """The address of new memory."""
        if size_bytes < 1:
            raise DeviceError(f"an allocation must have at least one byte, not {size_bytes}")
        try:
            memory = np.full((size_bytes + 2 * ALIGN) // 4, self._poison)
            rows = np.zeros(size_bytes * SHADOW_WORDS, np.int32) if self._shadows else None
        except MemoryError:
            raise DeviceError(
                f"memory of the emulated GPU must fit into the host's, and {size_bytes} bytes more "
                "do not"
            ) from None
        address = int(memory.ctypes.data)
        address += -address % ALIGN
        self._found[address] = _Allocation(size_bytes, memory, rows)
        self._table = None
        return address

    def free(self, address: int) -> None:
        """Give it back."""
        if address not in self._found:
            raise DeviceError(f"memory to free must be allocated, and {address:#x} is not")
        del self._found[address]
        self._table = None

    def write(self, address: int, data: bytes | bytearray | memoryview) -> None:
        """Copy bytes there."""
        raw = bytes(data)
        self._check(address, len(raw))
        ctypes.memmove(address, raw, len(raw))

    def read(self, address: int, size_bytes: int) -> bytes:
        """A copy of what is there."""
        self._check(address, size_bytes)
        return ctypes.string_at(address, size_bytes)

    def table(self) -> MemoryTable:
        """All allocations."""
        if self._table is None:
            items = sorted(self._found.items())
            rows = [
                (begin, begin + item.size, 0 if item.shadow is None else item.shadow.ctypes.data)
                for begin, item in items
            ]
            columns = np.array(rows or [(0, 0, 0)], np.int64).T
            self._table = MemoryTable(*(np.ascontiguousarray(column) for column in columns))
        return self._table

    def _check(self, address: int, size_bytes: int) -> None:
        table = self.table()
        at = int(np.searchsorted(table.begins, address, "right")) - 1
        if at < 0 or size_bytes < 0 or address + size_bytes > table.ends[at]:
            raise DeviceError(
                f"a copy must stay inside what is allocated, and {size_bytes} bytes at "
                f"{address:#x} do not"
            )
