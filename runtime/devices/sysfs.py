"""Access to driver attributes under /sys and devices under /dev, with clear errors."""

import mmap
import os
from dataclasses import dataclass
from pathlib import Path

from daedal.common.errors import DeviceError, UserError
from daedal.common.inputs import read_input
from daedal.runtime.devices.lock import lock_device

__all__ = ["MappedDevice", "map_device", "read_number", "write_attribute"]

_MAX_TEXT_BYTES = 4096
"""The kernel returns at most one page."""


def read_number(path: Path) -> int:
    """A number in decimal, or in hexadecimal with 0x. Raises UserError for anything else."""
    try:
        text = read_input(path, "a driver's number", _MAX_TEXT_BYTES).decode("ascii").strip()
        return int(text, 0)
    except (UserError, ValueError) as error:
        cause = error.__cause__
        reason = (cause.strerror if isinstance(cause, OSError) else None) or "it is no number"
        raise UserError(
            f"a driver must tell about its device in /sys; {str(path)!r} cannot be read: {reason}; "
            "load the driver, or name another device"
        ) from error


def write_attribute(path: Path, text: str) -> None:
    """Write a driver attribute. Raises DeviceError if the driver rejects it."""
    try:
        handle = os.open(path, os.O_WRONLY)
        try:
            os.write(handle, text.encode("ascii"))
        finally:
            os.close(handle)
    except OSError as error:
        raise DeviceError(
            f"the driver must take {text!r} in {str(path)!r}; it does not: {error.strerror}"
        ) from error


@dataclass(frozen=True)
class MappedDevice:
    """The bytes of a device, and the open file that holds its lock."""

    bytes: mmap.mmap
    handle: int


def map_device(path: Path, size_bytes: int) -> MappedDevice:
    """Lock a device and memory-map its first bytes, shared; the caller closes the handle.

    Raises UserError if it cannot be opened, or another process uses it.
    """
    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            lock_device(handle, str(path))
            return MappedDevice(mmap.mmap(handle, size_bytes, mmap.MAP_SHARED), handle)
        except BaseException:
            os.close(handle)
            raise
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UserError(
            f"a device must be there and open to reading and writing; {str(path)!r} is not: "
            f"{reason}; load its driver, name another path, or run as a user who may"
        ) from error
