"""Which files and folders this user alone can have written.

Whoever can replace a folder cannot replace it by one of this user's, so the folders above it are
not checked.
"""

import contextlib
import os
import stat
from pathlib import Path

__all__ = ["distrust", "is_own_file", "make_own_folder", "read_own"]

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def distrust(folder: Path, others: int = _OTHERS_WRITE) -> str | None:
    """Why someone else may have written what is in `folder`; None where nobody else can have.

    `others` are the bits of its mode that let someone else write. A folder that does not exist is
    trusted, and a link of this user to a folder like any other.
    """
    try:
        for status in (os.lstat(folder), os.stat(folder)):
            if not _is_own(status):
                return f"it belongs to another user ({status.st_uid})"
        if not stat.S_ISDIR(status.st_mode):
            return "it is no folder"
        if status.st_mode & others:
            return f"others may write to it (mode {stat.S_IMODE(status.st_mode):o})"
    except FileNotFoundError:
        return None if not folder.is_symlink() else "it is a link to nothing"
    except OSError as error:
        return f"it cannot be opened: {error.strerror}"
    return None


def is_own_file(path: Path) -> bool:
    """Whether `path` is a regular file, no link, that nobody else can have written."""
    try:
        return _is_own_file(os.lstat(path))
    except OSError:
        return False


def read_own(path: Path) -> bytes | None:
    """The content of a file; None unless `is_own_file` holds for it and it can be read."""
    try:
        # Without O_NONBLOCK, a pipe in the file's place would be waited for.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            return file.read() if _is_own_file(os.fstat(handle)) else None
    except OSError:
        return None


def make_own_folder(path: Path) -> None:
    """Create a folder, and parents that are missing, which only this user may open.

    Raises OSError.
    """
    if not path.is_dir():
        make_own_folder(path.parent)
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
        os.listdir(path)  # raises where it is no folder


def _is_own(status: os.stat_result) -> bool:
    return status.st_uid in (os.geteuid(), 0)


def _is_own_file(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) and _is_own(status) and not status.st_mode & _OTHERS_WRITE
