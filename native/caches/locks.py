"""`alone`: one process at a time makes the same file."""

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

__all__ = ["alone", "remove_old_locks"]

_OLD_SECONDS = 24 * 3600.0


@contextlib.contextmanager
def alone(path: Path, progress: Callable[[str], None] | None = None) -> Iterator[None]:
    """Hold an exclusive lock on the file `path`; `progress` is called if another process holds it.

    The lock is released when its process ends, however it ends. Raises OSError where the file
    cannot be created.
    """
    while True:
        with path.open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if progress is not None:
                    progress("another process is at it, waiting for its answer")
                fcntl.flock(lock, fcntl.LOCK_EX)
            if _is_at(path, lock.fileno()):
                yield
                return


def remove_old_locks(folder: Path) -> None:
    """Remove files ``*.lock`` that nobody holds, or has held for a day."""
    for path in folder.glob("*.lock"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime < _OLD_SECONDS:
                continue
            with path.open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()


def _is_at(path: Path, handle: int) -> bool:
    """Whether the open file is still the one at `path`: another process may have removed it."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except FileNotFoundError:
        return False
