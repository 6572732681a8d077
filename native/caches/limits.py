"""`make_space`: keeps the files of a cache below a limit; those unused for longest go first."""

import contextlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from daedal.native.caches.locks import remove_old_locks

__all__ = ["Entry", "Limit", "entries", "make_space", "mark_used"]

_KEPT = 0.75
"""Part of the limit that is left after files were removed, so that this happens rarely."""


@dataclass(frozen=True)
class Limit:
    """What a cache may take."""

    num_bytes: int
    num_entries: int = 1 << 62


@dataclass(frozen=True, order=True)
class Entry:
    """A file or a folder of a cache: when it was last used, its size, its path."""

    used: float
    num_bytes: int
    path: Path


def entries(folder: Path) -> list[Entry]:
    """What a cache holds, besides locks and unfinished files and folders."""
    found = []
    with contextlib.suppress(OSError), os.scandir(folder) as scanned:
        for item in scanned:
            if item.name.startswith((".", "building-")) or item.name.endswith(".lock"):
                continue
            with contextlib.suppress(OSError):
                status = item.stat(follow_symlinks=False)
                is_folder = item.is_dir(follow_symlinks=False)
                size = _folder_bytes(item.path) if is_folder else status.st_size
                found.append(Entry(status.st_mtime, size, Path(item.path)))
    return found


def make_space(folder: Path, limit: Limit, incoming: int = 0) -> tuple[int, int]:
    """Remove entries until one of `incoming` bytes fits; return bytes and number that are left."""
    found = sorted(entries(folder))
    left_bytes, left = sum(entry.num_bytes for entry in found), len(found)
    if left_bytes + incoming <= limit.num_bytes and left < limit.num_entries:
        return left_bytes, left
    for entry in found:
        if left_bytes + incoming <= limit.num_bytes * _KEPT and left < limit.num_entries * _KEPT:
            break
        _remove(entry.path)
        left_bytes, left = left_bytes - entry.num_bytes, left - 1
    remove_old_locks(folder)
    return left_bytes, left


def mark_used(path: Path) -> None:
    """Make an entry the one that was used last; without effect in a cache that is read-only."""
    with contextlib.suppress(OSError):
        os.utime(path)


def _folder_bytes(path: str) -> int:
    with os.scandir(path) as scanned:
        return sum(item.stat(follow_symlinks=False).st_size for item in scanned)


def _remove(path: Path) -> None:
    """Another process may be removing it, too."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()
