"""`UioRegisters`: control registers and interrupt of the machine through Linux' UIO.

Source: the kernel's driver-api/uio-howto: map 0 of the device is the register file; a read of four
bytes blocks until the next interrupt and returns the number of interrupts; writing 1 enables it
again, which `uio_pdrv_genirq` needs because its handler disables a level-triggered interrupt.
"""

import os
import select
import weakref
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from daedal.common.errors import DeviceError, UserError
from daedal.isa.registers import CONTROL_ADDRESS_BITS
from daedal.runtime.devices.lock import unlock_device
from daedal.runtime.devices.sysfs import map_device, read_number

__all__ = ["UioRegisters"]

_SIZE_BYTES = 1 << CONTROL_ADDRESS_BITS
_ENABLE = np.int32(1).tobytes()
_COUNT_BYTES = 4


class UioRegisters:
    """The registers of `device`, such as /dev/uio0, and the interrupt of `interrupt`.

    Both are usually the same device; an interrupt controller in the FPGA may have a separate one.
    Raises UserError if they cannot be opened.
    """

    def __init__(self, device: Path, interrupt: Path, sysfs: Path) -> None:
        size = read_number(sysfs / "class" / "uio" / device.name / "maps" / "map0" / "size")
        if size < _SIZE_BYTES:
            raise UserError(
                f"map 0 of {str(device)!r} must hold the {_SIZE_BYTES} bytes of the control "
                f"registers, not {size}; correct the device tree"
            )
        # Each array element is accessed with a single 32-bit access, as the bus requires.
        words = map_device(device, _SIZE_BYTES)
        self._words = np.frombuffer(words.bytes, dtype=np.uint32)
        self._unlock = weakref.finalize(self, unlock_device, words.handle)
        self._path = interrupt
        try:
            self._handle = os.open(interrupt, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise UserError(
                f"the interrupt must be a UIO device that can be opened; {str(interrupt)!r} is "
                f"not: {error.strerror}; name another path, or run as a user who may"
            ) from error
        weakref.finalize(self, os.close, self._handle)

    def close(self) -> None:
        """Leave the registers to others."""
        self._unlock()

    def read(self, offsets: Sequence[int]) -> list[int]:
        """Values in order."""
        return [int(self._words[offset // 4]) for offset in offsets]

    def write(self, writes: Sequence[tuple[int, int]]) -> None:
        """Write ``(offset, value)`` in order."""
        for offset, value in writes:
            self._words[offset // 4] = value

    def wait(self, seconds: float) -> None:
        """Enable the interrupt, and return when it occurs or after the timeout.

        Raises DeviceError if the device has no interrupt.
        """
        try:
            os.write(self._handle, _ENABLE)
            if select.select([self._handle], [], [], seconds)[0]:
                os.read(self._handle, _COUNT_BYTES)
        except OSError as error:
            raise DeviceError(
                f"the UIO device must have an interrupt; {str(self._path)!r} has none that works: "
                f"{error.strerror}; name it in the device tree"
            ) from error
