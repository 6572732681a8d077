"""Bytes of shared memory that an asynchronous copy may write until it lands."""

from daedal.native.kernel import kernel
from daedal.native.types import i64
from daedal.sim.gpu.launch import Launch
from daedal.sim.gpu.races import (
    NO_FENCES,
    SHADOW_BYTES,
    Shadow,
    fail,
    found_shadow,
    mark,
    wrote,
)
from daedal.sim.gpu.raw_memory import store_i32
from daedal.sim.gpu.reports import Failure, Site

__all__ = ["begin_flight", "can_land", "end_flight"]


@kernel
def can_land(launch: Launch, thread: i64, to: i64, size: i64, site: i64) -> bool:
    """Whether so many bytes from `to` on are shared memory; otherwise the launch ends."""
    if launch.shared <= to and to + size <= launch.shared + launch.shared_bytes:
        return True
    fail(launch, Failure.OUTSIDE, thread, site, to, size)
    return False


@kernel
def begin_flight(launch: Launch, thread: i64, to: i64, size: i64, site: i64) -> None:
    """A thread's copy may write the bytes from now on."""
    row = found_shadow(launch, to, size)
    if row > 0:
        for number in range(size):
            byte = row + number * SHADOW_BYTES
            mark(launch, byte, to + number, thread, site, True, True)
            store_i32(byte + Shadow.FLIGHT, thread)
            store_i32(byte + Shadow.FLIGHT_EPOCH, launch.epoch)


@kernel
def end_flight(launch: Launch, thread: i64, to: i64, size: i64, site: i64) -> None:
    """It has written them. Products of groups of warps see boxes without a fence."""
    row = found_shadow(launch, to, size)
    if row > 0:
        for number in range(size):
            byte = row + number * SHADOW_BYTES
            store_i32(byte + Shadow.FLIGHT_EPOCH, 0)
            wrote(launch, byte, thread, site)
            if site == Site.BOX:
                store_i32(byte + Shadow.WRITER_FENCES, NO_FENCES)
