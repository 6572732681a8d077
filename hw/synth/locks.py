"""`alone`: one process at a time makes the same file."""

import contextlib
import fcntl
from collections.abc import Callable, Iterator
from pathlib import Path

__all__ = ["alone"]


@contextlib.contextmanager
def alone(path: Path, progress: Callable[[str], None] | None = None) -> Iterator[None]:
    """Hold the lock file next to `path`; `progress` is called if another process holds it.

    The lock is released when its process ends, however it ends.
    """
    with path.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if progress is not None:
                progress("another process is at it, waiting for its answer")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
