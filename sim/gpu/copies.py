"""Asynchronous copies to shared memory: they land when a wait needs them, not before.

Source: NVIDIA, PTX ISA 8.0, "cp.async", "cp.async.commit_group", "cp.async.wait_group".
"""

from enum import IntEnum

from daedal.native.kernel import kernel
from daedal.native.types import i64
from daedal.sim.gpu.accesses import note, request
from daedal.sim.gpu.flights import begin_flight, can_land, end_flight
from daedal.sim.gpu.launch import Launch
from daedal.sim.gpu.races import (
    SHADOW_BYTES,
    Shadow,
    access,
    fail,
    found_shadow,
    reported,
)
from daedal.sim.gpu.raw_memory import copy_bytes, fill_words, load_i32
from daedal.sim.gpu.reports import Failure, Kind, Site
from daedal.sim.gpu.thread import ROW, Slot

__all__ = ["COPY_SLOTS", "MAX_COPIES", "begin_copy", "wait_for_copies"]

MAX_COPIES = 128
"""Of one thread that have not landed."""


class Copy(IntEnum):
    """Slots of a copy that has not landed."""

    TO = 0
    SOURCE = 1
    SIZE = 2
    VALID = 3
    GROUP = 4
    EPOCH = 5


COPY_SLOTS = len(Copy)


@kernel
def begin_copy(launch: Launch, thread: i64, to: i64, source: i64, size: i64, valid: i64) -> bool:
    """A copy of `valid` bytes and zeros after them; False where it must not happen."""
    fits = (size == 4 or size == 8 or size == 16) and 0 <= valid <= size and to % size == 0
    if not fits or (valid > 0 and source % size != 0):
        fail(launch, Failure.COPY_SHAPE, thread, Site.COPY, to, size)
        return False
    if not can_land(launch, thread, to, size, Site.COPY):
        return False
    if len(launch.noted) > 0:
        note(launch, thread, to, size, Site.COPY, True)
    if valid == 0 and len(launch.requested) > 0:
        request(launch, thread, source, 0, Site.COPY, False)
    if valid > 0 and not access(launch, thread, source, valid, Site.COPY, False):
        return False
    slots = ROW * thread
    count = launch.threads[slots + Slot.NUM_COPIES]
    if count == MAX_COPIES:
        fail(launch, Failure.COPIES, thread, Site.COPY, to, size)
        return False
    place = (launch.threads[slots + Slot.FIRST_COPY] + count) % MAX_COPIES
    at = (thread * MAX_COPIES + place) * COPY_SLOTS
    launch.copies[at + Copy.TO] = to
    launch.copies[at + Copy.SOURCE] = source
    launch.copies[at + Copy.SIZE] = size
    launch.copies[at + Copy.VALID] = valid
    launch.copies[at + Copy.EPOCH] = launch.epoch
    launch.copies[at + Copy.GROUP] = launch.threads[slots + Slot.GROUPS]
    launch.threads[slots + Slot.NUM_COPIES] = count + 1
    begin_flight(launch, thread, to, size, Site.COPY)
    return True


@kernel
def compare_source(launch: Launch, thread: i64, at: i64) -> None:
    """Report bytes of a copy's source that were written after its epoch, while it was under way."""
    source, valid = launch.copies[at + Copy.SOURCE], launch.copies[at + Copy.VALID]
    row = found_shadow(launch, source, valid)
    if row <= 0:
        return
    for number in range(valid):
        byte = row + number * SHADOW_BYTES
        if load_i32(byte + Shadow.WRITER_EPOCH) > launch.copies[at + Copy.EPOCH]:
            reported(
                launch,
                Kind.WRITE_READ,
                source + number,
                thread,
                Site.COPY,
                load_i32(byte + Shadow.WRITER_BLOCK),
                load_i32(byte + Shadow.WRITER),
                load_i32(byte + Shadow.WRITER_SITE),
            )


@kernel
def land(launch: Launch, thread: i64, at: i64) -> None:
    """Do what a copy at a place in `Launch.copies` says."""
    to, size = launch.copies[at + Copy.TO], launch.copies[at + Copy.SIZE]
    if launch.copies[at + Copy.VALID] > 0:
        compare_source(launch, thread, at)
    fill_words(to, size // 4, 0)
    copy_bytes(to, launch.copies[at + Copy.SOURCE], launch.copies[at + Copy.VALID])
    end_flight(launch, thread, to, size, Site.COPY)


@kernel
def wait_for_copies(launch: Launch, thread: i64, newest: i64) -> None:
    """Land the thread's copies, except for those of the `newest` groups and of none."""
    slots = ROW * thread
    needed = launch.threads[slots + Slot.GROUPS] - newest
    while launch.threads[slots + Slot.NUM_COPIES] > 0:
        first = launch.threads[slots + Slot.FIRST_COPY]
        at = (thread * MAX_COPIES + first) * COPY_SLOTS
        if launch.copies[at + Copy.GROUP] >= needed:
            return
        land(launch, thread, at)
        launch.threads[slots + Slot.FIRST_COPY] = (first + 1) % MAX_COPIES
        launch.threads[slots + Slot.NUM_COPIES] -= 1
