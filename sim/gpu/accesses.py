"""Keeps accesses of memory, for counts of bank conflicts and of sectors."""

from enum import IntEnum

from daedal.native.kernel import kernel
from daedal.native.types import i64
from daedal.sim.gpu.launch import Launch

__all__ = ["NOTED", "Noted", "note", "request"]


class Noted(IntEnum):
    """Columns of an access."""

    BLOCK = 0
    THREAD = 1
    SITE = 2
    OFFSET = 3
    """Of the first byte, in shared memory; of global memory, its address."""
    SIZE = 4
    """In bytes; negative for a write."""


NOTED = len(Noted)


@kernel
def request(
    launch: Launch, thread: i64, address: i64, size: i64, site: i64, is_write: bool
) -> None:
    """Keep an access of global memory; of 0 bytes where a thread leaves it out."""
    at = NOTED * launch.num_requested
    launch.num_requested += 1
    if at + NOTED <= len(launch.requested):
        launch.requested[at + Noted.BLOCK] = launch.block
        launch.requested[at + Noted.THREAD] = thread
        launch.requested[at + Noted.SITE] = site
        launch.requested[at + Noted.OFFSET] = address
        launch.requested[at + Noted.SIZE] = -size if is_write else size


@kernel
def note(launch: Launch, thread: i64, address: i64, size: i64, site: i64, is_write: bool) -> None:
    """Keep an access, if there is room for those of its memory."""
    if not launch.shared <= address < launch.shared + launch.shared_bytes:
        request(launch, thread, address, size, site, is_write)
        return
    at = NOTED * launch.num_noted
    launch.num_noted += 1
    if at + NOTED <= len(launch.noted):
        launch.noted[at + Noted.BLOCK] = launch.block
        launch.noted[at + Noted.THREAD] = thread
        launch.noted[at + Noted.SITE] = site
        launch.noted[at + Noted.OFFSET] = address - launch.shared
        launch.noted[at + Noted.SIZE] = -size if is_write else size
