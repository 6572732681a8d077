"""Keeps accesses of shared memory, for counts of bank conflicts."""

from enum import IntEnum

from daedal.native.kernel import kernel
from daedal.native.types import i64
from daedal.sim.gpu.launch import Launch

__all__ = ["NOTED", "Noted", "note"]


class Noted(IntEnum):
    """Columns of an access."""

    BLOCK = 0
    THREAD = 1
    SITE = 2
    OFFSET = 3
    """Of the first byte, in shared memory."""
    SIZE = 4
    """In bytes; negative for a write."""


NOTED = len(Noted)


@kernel
def note(launch: Launch, thread: i64, address: i64, size: i64, site: i64, is_write: bool) -> None:
    """Keep an access, if it is of shared memory and there is room."""
    if not launch.shared <= address < launch.shared + launch.shared_bytes:
        return
    at = NOTED * launch.num_noted
    launch.num_noted += 1
    if at + NOTED <= len(launch.noted):
        launch.noted[at + Noted.BLOCK] = launch.block
        launch.noted[at + Noted.THREAD] = thread
        launch.noted[at + Noted.SITE] = site
        launch.noted[at + Noted.OFFSET] = address - launch.shared
        launch.noted[at + Noted.SIZE] = -size if is_write else size
