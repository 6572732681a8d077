"""Files that are none: pipes, sockets, devices, folders, and links to them."""

import os
import signal
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

__all__ = ["ODD_FILES", "at_most", "make_odd_file", "unchanged"]


def _socket(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # the name of a socket has 107 bytes at most
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def _device(path: Path) -> None:
    """A node of our own for the endless zeros; no node of the machine is ever an output."""
    try:
        os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("making a device takes special rights")


def _link(make: Callable[[Path], None]) -> Callable[[Path], None]:
    def linked(path: Path) -> None:
        target = path.with_name(f"behind-{path.name}")
        make(target)
        path.symlink_to(target)

    return linked


ODD_FILES: dict[str, Callable[[Path], None]] = {
    "a pipe": os.mkfifo,
    "a socket": _socket,
    "a device": _device,
    "a folder": Path.mkdir,
    "a link to a pipe": _link(os.mkfifo),
    "a link to a device": _link(_device),
    "a link to a folder": _link(Path.mkdir),
    "a link to nothing": _link(lambda _path: None),
}
"""What makes each at a path."""


def make_odd_file(kind: str, path: Path) -> str:
    """Make it; returns how a message calls it."""
    ODD_FILES[kind](path)
    return kind if kind == "a link to nothing" else f"a {kind.split()[-1]}"


@contextmanager
def unchanged(folder: Path) -> Iterator[None]:
    """All that lies in a folder is the same after the block: names, kinds, sizes."""

    def seen() -> dict[str, tuple[int, int, int]]:
        found = {str(path): path.lstat() for path in folder.rglob("*")}
        return {name: (item.st_mode, item.st_ino, item.st_size) for name, item in found.items()}

    before = seen()
    yield
    assert seen() == before


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Fail where the block waits for longer, as it would for a pipe."""

    def late(_number: int, _frame: object) -> None:
        raise AssertionError(f"took more than {seconds} seconds")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
