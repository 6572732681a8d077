"""`DmaBuffer`: physically contiguous memory from the u-dma-buf driver of Linux.

The processor accesses it through its caches, the machine does not, so every copy synchronizes the
range it transfers. Source: the README of ikwzm/udmabuf, "Device file" and "Coherency of data on DMA
buffer and CPU cache".
"""

import weakref
from pathlib import Path

import numpy as np

from daedal.common.errors import UserError
from daedal.runtime.devices.lock import unlock_device
from daedal.runtime.devices.sysfs import map_device, read_number, write_attribute

__all__ = ["DmaBuffer"]

_CLASSES = ("u-dma-buf", "udmabuf")
"""Folder names in /sys/class by version of the driver, newest first."""

_LINE_BYTES = 64
"""Synchronization works on whole cache lines: 32 bytes on a Cortex-A9, 64 on a Cortex-A53."""

_BOTH_WAYS, _TO_DEVICE, _FROM_DEVICE = 0, 1, 2


class DmaBuffer:
    """The buffer `device`, such as /dev/udmabuf0, whose driver attributes are under `sysfs`.

    Members
    -------
    address, size_bytes : its address on the machine's bus, and its size.

    Raises UserError where it cannot be opened.
    """

    def __init__(self, device: Path, sysfs: Path) -> None:
        folders = [sysfs / "class" / name / device.name for name in _CLASSES]
        self._folder = next((folder for folder in folders if folder.is_dir()), folders[0])
        self.address = read_number(self._folder / "phys_addr")
        self.size_bytes = read_number(self._folder / "size")
        if self.size_bytes <= 0:
            raise UserError(
                f"a buffer must have a size; {str(device)!r} has {self.size_bytes} bytes: load its "
                "driver anew"
            )
        mapped = map_device(device, self.size_bytes)
        self._bytes = np.frombuffer(mapped.bytes, dtype=np.uint8)
        self._unlock = weakref.finalize(self, unlock_device, mapped.handle)

    def close(self) -> None:
        """Leave the buffer to others."""
        self._unlock()

    def read(self, address: int, size_bytes: int) -> bytes:
        """Copy out of the buffer, after a cache sync for the processor."""
        begin = self._offset(address, size_bytes)
        self._hand_over("sync_for_cpu", begin, size_bytes, _FROM_DEVICE)
        return self._bytes[begin : begin + size_bytes].tobytes()

    def write(self, address: int, data: bytes) -> None:
        """Copy into the buffer, followed by a cache sync for the machine."""
        begin = self._offset(address, len(data))
        # The machine may have written the rest of the first and last line.
        self._hand_over("sync_for_cpu", begin, len(data), _BOTH_WAYS)
        self._bytes[begin : begin + len(data)] = np.frombuffer(data, dtype=np.uint8)
        self._hand_over("sync_for_device", begin, len(data), _TO_DEVICE)

    def _offset(self, address: int, size_bytes: int) -> int:
        begin = address - self.address
        assert 0 <= begin <= begin + size_bytes <= self.size_bytes, "copies stay within the buffer"
        return begin

    def _hand_over(self, to: str, begin: int, size_bytes: int, direction: int) -> None:
        if size_bytes:
            first = begin // _LINE_BYTES * _LINE_BYTES
            size = -(-(begin + size_bytes - first) // _LINE_BYTES) * _LINE_BYTES
            # A single write: the offset, then the size with direction and a 1 in its low bits.
            command = f"0x{first:08X}{size | direction << 2 | 1:08X}"
            write_attribute(self._folder / to, command)
