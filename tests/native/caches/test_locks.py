"""One at a time: the second waits, and says so."""

import fcntl
import os
import threading
from pathlib import Path
from typing import IO
from unittest import mock

import pytest

from daedal.native.caches.locks import alone, remove_old_locks


def test_the_second_waits_for_the_first(tmp_path: Path) -> None:
    path = tmp_path / "answer.lock"
    told: list[str] = []
    seen: list[bool] = []
    waiting = threading.Event()

    def tell(text: str) -> None:
        told.append(text)
        waiting.set()

    def second() -> None:
        with alone(path, tell):
            seen.append(path.is_file())

    thread = threading.Thread(target=second)
    with alone(path, tell):
        assert told == []
        thread.start()
        assert waiting.wait(30)
        path.write_text("")
    thread.join(30)
    assert seen == [True]
    assert told == ["another process is at it, waiting for its answer"]


def test_locks_end_with_their_block(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    with alone(path), path.open("w") as second:
        with pytest.raises(BlockingIOError):
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with path.open("w") as third:
        fcntl.flock(third, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_old_locks_are_removed_unless_held(tmp_path: Path) -> None:
    held, free, new = (tmp_path / f"{name}.lock" for name in ("held", "free", "new"))
    free.touch()
    new.touch()
    with alone(held):
        for path in (held, free):
            os.utime(path, (1, 1))
        remove_old_locks(tmp_path)
    assert held.exists() and new.exists() and not free.exists()


def test_a_lock_that_was_removed_meanwhile_is_taken_again(tmp_path: Path) -> None:
    """Otherwise two processes would hold the lock, one of them on a file that is gone."""
    path = tmp_path / "x.lock"
    flock = fcntl.flock

    def remove_then_lock(file: IO[str], operation: int) -> None:
        flock(file, operation)
        if removals:
            removals.pop().unlink()

    removals = [path]
    with mock.patch("fcntl.flock", remove_then_lock), alone(path):
        assert path.exists() and not removals
