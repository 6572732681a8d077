"""Reads files named by users: regular files only, and at most a given number of bytes.

Reading a device may never end, and opening a pipe may block for ever, so both are refused. A file
may grow, or report no size, so bytes are counted as they are read.
"""

import os
import stat
from pathlib import Path
from typing import BinaryIO

from daedal.common.errors import UserError

__all__ = ["kind_of", "open_input", "read_input"]

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISLNK, "a link to nothing"),
)


def kind_of(mode: int) -> str:
    """The kind of a file that is not a regular one, in words, from its `stat` mode."""
    return next((name for is_kind, name in _KINDS if is_kind(mode)), "a device")


def open_input(path: str | Path, what: str, error: type[UserError] = UserError) -> BinaryIO:
    """Open the regular file `path`, or the target of a link, for reading.

    `what` begins an error message, such as "a model". Raises `error` for anything but a regular
    file, before opening it, and for a file that cannot be read.
    """
    try:
        _require_regular(os.stat(path).st_mode)
        # Nonblocking: the path may have become a pipe meanwhile. No effect on regular files.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            _require_regular(os.fstat(handle).st_mode)
            return os.fdopen(handle, "rb")
        except BaseException:
            os.close(handle)
            raise
    except (OSError, ValueError) as caught:
        raise _refusal(path, what, error, caught) from caught


def read_input(
    path: str | Path, what: str, max_bytes: int, error: type[UserError] = UserError
) -> bytes:
    """All bytes of a regular file. Raises `error` as `open_input`, and above `max_bytes`."""
    with open_input(path, what, error) as file:
        try:
            expected = min(os.fstat(file.fileno()).st_size, max_bytes)
            data = file.read(expected + 1) or b""
            if len(data) > expected:  # the reported size was too small
                data += file.read(max_bytes + 1 - len(data)) or b""
        except OSError as caught:
            raise _refusal(path, what, error, caught) from caught
    if len(data) > max_bytes:
        raise error(f"{what} must have at most {max_bytes} bytes; {str(path)!r} has more")
    return data


def _require_regular(mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise ValueError(f"it is {kind_of(mode)}")


def _refusal(
    path: str | Path, what: str, error: type[UserError], caught: OSError | ValueError
) -> UserError:
    reason = (caught.strerror if isinstance(caught, OSError) else None) or str(caught)
    return error(f"{what} must be a readable file; {str(path)!r} is not: {reason}; check the path")
