"""Processes that tests start, and what they wait for."""

import ipaddress
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

__all__ = ["alive", "listening", "wait_until"]

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


def listening(pid: int) -> set[tuple[str, int]]:
    """Addresses and ports at which a process and its children accept connections."""
    tree = [pid, *_descendants(pid)]
    sockets = {_target(link) for one in tree for link in Path(f"/proc/{one}/fd").iterdir()}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            local, state, inode = (line.split()[at] for at in (1, 3, 9))
            if state == _LISTEN and f"socket:[{inode}]" in sockets:
                host, port = local.split(":")
                found.add((_address(host), int(port, 16)))
    return found


_LISTEN = "0A"


def _address(digits: str) -> str:
    """The address of a line of /proc/net/tcp: words of 32 bits in the order of the processor."""
    words = [int(digits[at : at + 8], 16) for at in range(0, len(digits), 8)]
    return str(ipaddress.ip_address(b"".join(word.to_bytes(4, sys.byteorder) for word in words)))


def _descendants(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            yield child
            yield from _descendants(child)


def _target(link: Path) -> str:
    try:
        return os.readlink(link)
    except FileNotFoundError:
        return ""
