"""The race detector: accesses of shared and global memory, byte by byte.

Every byte has a row of `Shadow`: its last writer and two of its readers, with the epoch of the
access. Barriers and blocks begin epochs. Two accesses, at least one of which writes, race where
different threads of a block make them in one epoch, or threads of different blocks in one launch.
Blocks run one after the other, so an access meets those of all blocks before its own.
"""

from enum import IntEnum

from daedal.native.kernel import kernel
from daedal.native.types import i64
from daedal.sim.gpu.accesses import note
from daedal.sim.gpu.launch import Launch
from daedal.sim.gpu.raw_memory import load_i32, store_i32
from daedal.sim.gpu.reports import KEPT, Column, Failure, Kind, Site
from daedal.sim.gpu.thread import ROW, Slot

__all__ = [
    "NO_FENCES",
    "SHADOW_BYTES",
    "SHADOW_WORDS",
    "Shadow",
    "access",
    "begin_reading",
    "end_reading",
    "fail",
    "found_shadow",
    "mark",
    "meets_unfenced",
    "reported",
    "wrote",
]


class Shadow(IntEnum):
    """Bytes from the begin of a row to each of its words. An epoch of 0 is none."""

    WRITER = 0
    WRITER_EPOCH = 4
    WRITER_SITE = 8
    WRITER_BLOCK = 12
    READER = 16
    """The first one of an epoch, or one of another block."""
    READER_EPOCH = 20
    READER_SITE = 24
    READER_BLOCK = 28
    SECOND = 32
    """Another reader of the same epoch."""
    SECOND_EPOCH = 36
    SECOND_SITE = 40
    FLIGHT = 44
    """The thread whose asynchronous copy may write it."""
    FLIGHT_EPOCH = 48
    WRITER_FENCES = 52
    """`Slot.FENCES` of its last writer then."""
    PRODUCTS = 56
    """That read it and are not done, in the block whose first epoch follows, and a thread of the
    last one."""
    PRODUCTS_BLOCK = 60
    PRODUCTS_THREAD = 64


NO_FENCES = -1
"""As `Shadow.WRITER_FENCES`: what wrote a byte needs no fence."""
SHADOW_WORDS = 17
SHADOW_BYTES = 4 * SHADOW_WORDS


@kernel
def fail(launch: Launch, failure: i64, thread: i64, site: i64, place: i64, size: i64) -> None:
    """End the launch; the first failure counts."""
    if launch.failure == Failure.NONE:
        launch.failure = failure
        launch.thread = thread
        launch.site = site
        launch.place = place
        launch.size = size


@kernel
def found_shadow(launch: Launch, address: i64, size: i64) -> i64:
    """The address of the first byte's row; 0 where races are not looked for, -1 outside of all
    that the block may access."""
    if launch.shared <= address and address + size <= launch.shared + launch.shared_bytes:
        if launch.shared_shadow == 0:
            return 0
        return launch.shared_shadow + (address - launch.shared) * SHADOW_BYTES
    at = launch.region
    if not (at < len(launch.begins) and launch.begins[at] <= address < launch.ends[at]):
        low, high = 0, len(launch.begins)
        while low < high:
            middle = (low + high) // 2
            if launch.begins[middle] <= address:
                low = middle + 1
            else:
                high = middle
        at = low - 1
        if at < 0:
            return -1
    if address + size > launch.ends[at]:
        return -1
    launch.region = at
    if launch.shadows[at] == 0:
        return 0
    return launch.shadows[at] + (address - launch.begins[at]) * SHADOW_BYTES


@kernel
def reported(
    launch: Launch,
    kind: i64,
    address: i64,
    thread: i64,
    site: i64,
    other_block: i64,
    other_thread: i64,
    other_site: i64,
) -> None:
    """Count a race, and keep it if it is one of the first."""
    if launch.num_races < KEPT:
        at = 8 * launch.num_races
        launch.found[at + Column.KIND] = kind
        launch.found[at + Column.ADDRESS] = address
        launch.found[at + Column.BLOCK] = launch.block
        launch.found[at + Column.THREAD] = thread
        launch.found[at + Column.SITE] = site
        launch.found[at + Column.OTHER_BLOCK] = other_block
        launch.found[at + Column.OTHER_THREAD] = other_thread
        launch.found[at + Column.OTHER_SITE] = other_site
    launch.num_races += 1


@kernel
def meets_writer(
    launch: Launch, row: i64, address: i64, thread: i64, site: i64, first: i64, kind: i64
) -> None:
    """Report it where an access and the last write race; `first` is the epoch from which on other
    blocks are not ordered."""
    epoch = load_i32(row + Shadow.WRITER_EPOCH)
    if epoch < first:
        return
    writer = load_i32(row + Shadow.WRITER)
    if epoch < launch.block_first or (epoch == launch.epoch and writer != thread):
        block = load_i32(row + Shadow.WRITER_BLOCK)
        reported(
            launch, kind, address, thread, site, block, writer, load_i32(row + Shadow.WRITER_SITE)
        )


@kernel
def meets_readers(
    launch: Launch, row: i64, address: i64, thread: i64, site: i64, first: i64
) -> None:
    """Report it where a write and a read before it race."""
    epoch = load_i32(row + Shadow.READER_EPOCH)
    if epoch < first:
        return
    block, reader = load_i32(row + Shadow.READER_BLOCK), load_i32(row + Shadow.READER)
    if epoch < launch.block_first or (epoch == launch.epoch and reader != thread):
        at = load_i32(row + Shadow.READER_SITE)
        reported(launch, Kind.READ_WRITE, address, thread, site, block, reader, at)
    elif epoch == launch.epoch and load_i32(row + Shadow.SECOND_EPOCH) == epoch:
        at = load_i32(row + Shadow.SECOND_SITE)
        second = load_i32(row + Shadow.SECOND)
        reported(launch, Kind.READ_WRITE, address, thread, site, block, second, at)


@kernel
def wrote(launch: Launch, row: i64, thread: i64, site: i64) -> None:
    """Keep a write."""
    store_i32(row + Shadow.WRITER, thread)
    store_i32(row + Shadow.WRITER_EPOCH, launch.epoch)
    store_i32(row + Shadow.WRITER_SITE, site)
    store_i32(row + Shadow.WRITER_BLOCK, launch.block)
    store_i32(row + Shadow.WRITER_FENCES, launch.threads[ROW * thread + Slot.FENCES])


@kernel
def begin_reading(launch: Launch, row: i64, thread: i64) -> None:
    """A product of a group of warps may read a byte from now on."""
    count = load_i32(row + Shadow.PRODUCTS)
    if load_i32(row + Shadow.PRODUCTS_BLOCK) != launch.block_first:
        count = 0
    store_i32(row + Shadow.PRODUCTS, count + 1)
    store_i32(row + Shadow.PRODUCTS_BLOCK, launch.block_first)
    store_i32(row + Shadow.PRODUCTS_THREAD, thread)


@kernel
def is_being_read(launch: Launch, row: i64) -> bool:
    """Whether a product of a group of warps may read a byte."""
    if load_i32(row + Shadow.PRODUCTS_BLOCK) != launch.block_first:
        return False
    return load_i32(row + Shadow.PRODUCTS) > 0


@kernel
def end_reading(launch: Launch, row: i64) -> None:
    """It has read it."""
    if load_i32(row + Shadow.PRODUCTS_BLOCK) == launch.block_first:
        store_i32(row + Shadow.PRODUCTS, load_i32(row + Shadow.PRODUCTS) - 1)


@kernel
def meets_unfenced(launch: Launch, row: i64, address: i64, thread: i64, site: i64) -> None:
    """Report it where a product reads what the writer has not fenced since."""
    if load_i32(row + Shadow.WRITER_EPOCH) < launch.block_first:
        return
    writer = load_i32(row + Shadow.WRITER)
    if load_i32(row + Shadow.WRITER_FENCES) == launch.threads[ROW * writer + Slot.FENCES]:
        block, place = load_i32(row + Shadow.WRITER_BLOCK), load_i32(row + Shadow.WRITER_SITE)
        reported(launch, Kind.READ_UNFENCED, address, thread, site, block, writer, place)


@kernel
def has_read(launch: Launch, row: i64, thread: i64, site: i64, first: i64) -> None:
    """Keep a read. That of another block stays: each later write of the launch races with it."""
    epoch = load_i32(row + Shadow.READER_EPOCH)
    if first <= epoch < launch.block_first:
        return
    if epoch == launch.epoch:
        if load_i32(row + Shadow.READER) != thread:
            store_i32(row + Shadow.SECOND, thread)
            store_i32(row + Shadow.SECOND_EPOCH, launch.epoch)
            store_i32(row + Shadow.SECOND_SITE, site)
        return
    store_i32(row + Shadow.READER, thread)
    store_i32(row + Shadow.READER_EPOCH, launch.epoch)
    store_i32(row + Shadow.READER_SITE, site)
    store_i32(row + Shadow.READER_BLOCK, launch.block)


@kernel
def mark(
    launch: Launch, row: i64, address: i64, thread: i64, site: i64, is_write: bool, is_shared: bool
) -> None:
    """Compare an access of a byte with those before it, and keep it."""
    first = launch.block_first if is_shared else launch.launch_first
    if is_shared and is_write and is_being_read(launch, row):
        reader = load_i32(row + Shadow.PRODUCTS_THREAD)
        kind = Kind.WRITE_UNDER_PRODUCT
        reported(launch, kind, address, thread, site, launch.block, reader, Site.PRODUCT)
    if is_shared and load_i32(row + Shadow.FLIGHT_EPOCH) >= launch.block_first:
        kind = Kind.WRITE_IN_FLIGHT if is_write else Kind.READ_IN_FLIGHT
        flying = load_i32(row + Shadow.FLIGHT)
        reported(launch, kind, address, thread, site, launch.block, flying, 0)
    elif is_write:
        meets_writer(launch, row, address, thread, site, first, Kind.WRITE_WRITE)
        meets_readers(launch, row, address, thread, site, first)
    elif is_shared and load_i32(row + Shadow.WRITER_EPOCH) < first:
        reported(launch, Kind.UNWRITTEN, address, thread, site, launch.block, thread, site)
    else:
        meets_writer(launch, row, address, thread, site, first, Kind.WRITE_READ)
    if is_write:
        wrote(launch, row, thread, site)
    else:
        has_read(launch, row, thread, site, first)


@kernel
def access(launch: Launch, thread: i64, address: i64, size: i64, site: i64, is_write: bool) -> bool:
    """An access of `size` bytes; False where it must not happen, which ends the launch."""
    row = found_shadow(launch, address, size)
    if row < 0:
        fail(launch, Failure.OUTSIDE, thread, site, address, size)
        return False
    if len(launch.noted) > 0 or len(launch.requested) > 0:
        note(launch, thread, address, size, site, is_write)
    if row > 0:
        is_shared = launch.shared <= address < launch.shared + launch.shared_bytes
        for number in range(size):
            at = row + number * SHADOW_BYTES
            mark(launch, at, address + number, thread, site, is_write, is_shared)
    return True
