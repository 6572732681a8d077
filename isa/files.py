"""Writing files so that a reader sees the old one or the new one, never half of it."""

import contextlib
import os
import tempfile
from pathlib import Path

from daedal.isa.errors import UserError

__all__ = ["make_folder", "write_atomically"]


def make_folder(path: Path) -> None:
    """Make a folder, and those above it, unless it is there. Raises UserError if it cannot be."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"an output folder must be one that can be made; {str(path)!r} is not: "
            f"{error.strerror}; choose another path"
        ) from error


def write_atomically(path: Path, data: bytes | str) -> None:
    """Write `data` to `path` through a temporary file in the same folder.

    Raises UserError where the folder cannot be written.
    """
    content = data.encode() if isinstance(data, str) else data
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise UserError(
            f"an output file must lie in a writable folder; {str(path)!r} does not: "
            f"{error.strerror}"
        ) from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError):
            raise UserError(
                f"an output file must be writable; {str(path)!r} is not: {error.strerror}"
            ) from error
        raise
