"""`HostMemory`: the memory part of the `Device` protocol, held in host memory."""

from daedal.isa.protocols import PAGE_BYTES
from daedal.isa.variant import Variant

__all__ = ["HostMemory"]


class HostMemory:
    """Memory of a simulated machine, growing in whole pages; a base class of devices.

    Parameters
    ----------
    variant
        The machine's variant.
    """

    def __init__(self, variant: Variant) -> None:
        self._variant = variant
        self._memory = bytearray()

    @property
    def variant(self) -> Variant:
        """The machine's variant."""
        return self._variant

    def alloc(self, size_bytes: int) -> int:
        """Address of a new region."""
        address = len(self._memory)
        self._memory.extend(bytes(-(-max(size_bytes, 1) // PAGE_BYTES) * PAGE_BYTES))
        return address

    def write(self, address: int, data: bytes) -> None:
        """Copy into memory."""
        assert address + len(data) <= len(self._memory), "writes must stay within allocated regions"
        self._memory[address : address + len(data)] = data

    def read(self, address: int, size_bytes: int) -> bytes:
        """Copy out of memory."""
        return bytes(self._memory[address : address + size_bytes])
