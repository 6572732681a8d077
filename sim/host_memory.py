"""`HostMemory`: the memory part of the `Device` protocol, held in host memory."""

import numpy as np

from daedal.isa.protocols import next_page
from daedal.isa.variant import Variant
from daedal.runtime.last_launch import LastLaunch

__all__ = ["HostMemory"]


class HostMemory:
    """Memory of a simulated machine, growing in whole pages, and what it has launched last.

    A base class of devices.

    Parameters
    ----------
    variant
        The machine's variant.
    memory_bytes
        Initial memory size, rounded up to whole pages.
    """

    def __init__(self, variant: Variant, memory_bytes: int = 0) -> None:
        self._variant = variant
        self._next = 0
        self._memory = np.zeros(next_page(memory_bytes), dtype=np.uint8)
        self._last = LastLaunch()

    @property
    def variant(self) -> Variant:
        """The machine's variant."""
        return self._variant

    def alloc(self, size_bytes: int) -> int:
        """Address of a new region; memory grows as needed."""
        address = self._next
        self._next += next_page(max(size_bytes, 1))
        if self._next > self._memory.size:
            grown = np.zeros(self._next, dtype=np.uint8)
            grown[: self._memory.size] = self._memory
            self._memory = grown
        return address

    def write(self, address: int, data: bytes) -> None:
        """Copy into memory."""
        end = address + len(data)
        assert end <= self._memory.size, "writes must stay within allocated regions"
        self._memory[address:end] = np.frombuffer(data, dtype=np.uint8)

    def read(self, address: int, size_bytes: int) -> bytes:
        """Copy out of memory."""
        return self._memory[address : address + size_bytes].tobytes()
