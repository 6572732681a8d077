"""Processes that tests start, and what they wait for."""

import time
from collections.abc import Callable
from pathlib import Path

__all__ = ["alive", "wait_until"]

PATIENCE_SECONDS = 20.0


def alive(pid: int) -> bool:
    """Whether a process runs; one that ended and that nobody asked about does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def wait_until(happened: Callable[[], bool]) -> None:
    """Fail where it does not happen in time."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not happened():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
