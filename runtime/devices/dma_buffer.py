"""`DmaBuffer`: memory that is contiguous in physical addresses, from the u-dma-buf driver of Linux.

The processor sees it through its caches and the machine does not, so every copy says which range
changes hands. Source: the README of ikwzm/udmabuf, "Device file" and "Coherency of data on DMA
buffer and CPU cache".
"""

from pathlib import Path

import numpy as np

from daedal.isa.errors import UserError
from daedal.runtime.devices.sysfs import map_device, read_number, write_attribute

__all__ = ["DmaBuffer"]

_CLASSES = ("u-dma-buf", "udmabuf")
"""Folders of /sys/class by version of the driver, newest first."""

_LINE_BYTES = 64
"""What changes hands is whole cache lines; those of Cortex-A9 have 32 bytes, of Cortex-A53 64."""

_BOTH_WAYS, _TO_DEVICE, _FROM_DEVICE = 0, 1, 2


class DmaBuffer:
    """The buffer `device`, say /dev/udmabuf0, whose driver answers under `sysfs`.

    Members
    -------
    address, size_bytes : where it lies on the bus of the machine, and its size.

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
        self._bytes = np.frombuffer(map_device(device, self.size_bytes), dtype=np.uint8)

    def read(self, address: int, size_bytes: int) -> bytes:
        """Copy what the machine has written."""
        begin = self._offset(address, size_bytes)
        self._hand_over("sync_for_cpu", begin, size_bytes, _FROM_DEVICE)
        return self._bytes[begin : begin + size_bytes].tobytes()

    def write(self, address: int, data: bytes) -> None:
        """Copy to where the machine reads it."""
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
            # One write of offset, and of size with direction and a 1 in the bits below 16.
            command = f"0x{first:08X}{size | direction << 2 | 1:08X}"
            write_attribute(self._folder / to, command)
