"""Copies of boxes of a tensor to shared memory: they land when a thread waits for them, not before.

What counts their bytes lies in shared memory, 8 bytes each: how often all expected bytes have
arrived, and how many are missing. Source: NVIDIA, PTX ISA 8.0, "cp.async.bulk.tensor", "mbarrier".
"""

from enum import IntEnum

import numpy as np

from daedal.artifact.gpu_code import CORE_BYTES, MAP_BYTES, TensorMap
from daedal.native.kernel import kernel
from daedal.native.types import i64
from daedal.sim.gpu.flights import begin_flight, can_land, end_flight
from daedal.sim.gpu.launch import Launch
from daedal.sim.gpu.races import (
    access,
    fail,
)
from daedal.sim.gpu.raw_memory import copy_bytes, fill_words, load_i32, load_i64, store_i32
from daedal.sim.gpu.reports import Failure, Site
from daedal.sim.gpu.thread import ROW, Slot, State

__all__ = [
    "BOX_SLOTS",
    "MAX_BOXES",
    "begin_arrivals",
    "begin_box",
    "emulated_map",
    "expect_boxes",
    "serve_arrivals",
]

MAX_BOXES = 256
"""Of a block that have not landed."""
RANK = 5
"""Of a map, at most."""
LINE, CHUNK, LINES = 128, 16, 8
"""Bytes of a line, and of what is swizzled in it; lines after which swizzles are the same."""
ALIGN = LINE * LINES
ARRIVAL_BYTES = 8


class Map(IntEnum):
    """Words of 8 bytes of a map; extents along dimensions, the last one first."""

    ADDRESS = 0
    ELEMENT = 1
    """Bytes of it."""
    SHAPE = 2
    BOX = 7


class Pending(IntEnum):
    """Slots of a copy that has not landed; its first element along dimensions follows."""

    TO = 0
    MAP = 1
    ARRIVAL = 2
    THREAD = 3
    FIRST = 4


BOX_SLOTS = 9


def emulated_map(item: TensorMap, address: int) -> bytes:
    """A map of the tensor at an address, as an argument of a kernel."""
    words = np.ones(MAP_BYTES // 8, np.int64)
    words[Map.ADDRESS] = address
    words[Map.ELEMENT] = CORE_BYTES[item.dtype]
    words[Map.SHAPE : Map.SHAPE + len(item.shape)] = item.shape[::-1]
    words[Map.BOX : Map.BOX + len(item.box)] = item.box[::-1]
    return words.tobytes()


@kernel
def field(at: i64, word: i64) -> i64:
    """A word of a map."""
    return load_i64(at + 8 * word)


@kernel
def box_lines(at: i64) -> i64:
    """Lines of a box."""
    count = 1
    for dimension in range(1, RANK):
        count *= field(at, Map.BOX + dimension)
    return count


@kernel
def begin_arrivals(launch: Launch, thread: i64, at: i64, count: i64) -> bool:
    """Nothing has arrived. False where it must not happen."""
    if not access(launch, thread, at, ARRIVAL_BYTES * count, Site.ARRIVAL, True):
        return False
    fill_words(at, 2 * count, 0)
    return True


@kernel
def expect_boxes(launch: Launch, thread: i64, at: i64, size: i64) -> bool:
    """So many bytes are expected. False where it must not happen."""
    if not access(launch, thread, at, ARRIVAL_BYTES, Site.ARRIVAL, False):
        return False
    if load_i32(at + 4) != 0:
        fail(launch, Failure.EXPECTED, thread, Site.ARRIVAL, at, size)
        return False
    store_i32(at + 4, size)
    return True


@kernel
def begin_box(
    launch: Launch,
    thread: i64,
    to: i64,
    tensor: i64,
    arrival: i64,
    a: i64,
    b: i64,
    c: i64,
    d: i64,
    e: i64,
) -> bool:
    """A copy of a box from the element (a, b, ...) on, the last dimension first. False where it
    must not happen."""
    size = box_lines(tensor) * LINE
    fits = field(tensor, Map.BOX) * field(tensor, Map.ELEMENT) == LINE
    if not fits or (to - launch.shared) % ALIGN != 0 or field(tensor, Map.ADDRESS) % CHUNK != 0:
        fail(launch, Failure.BOX_SHAPE, thread, Site.BOX, to, size)
        return False
    if not can_land(launch, thread, to, size, Site.BOX):
        return False
    if not access(launch, thread, arrival, ARRIVAL_BYTES, Site.ARRIVAL, False):
        return False
    if launch.num_boxes == MAX_BOXES:
        fail(launch, Failure.BOXES, thread, Site.BOX, to, size)
        return False
    at = launch.num_boxes * BOX_SLOTS
    launch.num_boxes += 1
    launch.boxes[at + Pending.TO] = to
    launch.boxes[at + Pending.MAP] = tensor
    launch.boxes[at + Pending.ARRIVAL] = arrival
    launch.boxes[at + Pending.THREAD] = thread
    launch.boxes[at + Pending.FIRST] = a
    launch.boxes[at + Pending.FIRST + 1] = b
    launch.boxes[at + Pending.FIRST + 2] = c
    launch.boxes[at + Pending.FIRST + 3] = d
    launch.boxes[at + Pending.FIRST + 4] = e
    begin_flight(launch, thread, to, size, Site.BOX)
    return True


@kernel
def element_address(launch: Launch, at: i64, tensor: i64, line: i64, element: i64) -> i64:
    """Where an element of a box is read; 0 outside of the tensor."""
    first = launch.boxes[at + Pending.FIRST] + element
    if not 0 <= first < field(tensor, Map.SHAPE):
        return 0
    number, stride, rest = first, field(tensor, Map.SHAPE), line
    for dimension in range(1, RANK):
        extent = field(tensor, Map.BOX + dimension)
        index = launch.boxes[at + Pending.FIRST + dimension] + rest % extent
        if not 0 <= index < field(tensor, Map.SHAPE + dimension):
            return 0
        number += index * stride
        stride *= field(tensor, Map.SHAPE + dimension)
        rest //= extent
    return field(tensor, Map.ADDRESS) + number * field(tensor, Map.ELEMENT)


@kernel
def land_box(launch: Launch, at: i64) -> bool:
    """Do what a copy at a place in `Launch.boxes` says. False where it reads outside."""
    to, tensor = launch.boxes[at + Pending.TO], launch.boxes[at + Pending.MAP]
    thread, size = launch.boxes[at + Pending.THREAD], field(tensor, Map.ELEMENT)
    lines = box_lines(tensor)
    fill_words(to, lines * LINE // 4, 0)
    for line in range(lines):
        for element in range(LINE // size):
            source = element_address(launch, at, tensor, line, element)
            if source != 0:
                if not access(launch, thread, source, size, Site.BOX, False):
                    return False
                place = line * LINE + element * size
                copy_bytes(to + (place ^ place // LINE % LINES * CHUNK), source, size)
    end_flight(launch, thread, to, lines * LINE, Site.BOX)
    return True


@kernel
def land_boxes(launch: Launch, arrival: i64) -> None:
    """Land the copies that are counted in a place; those that are left keep their order."""
    kept = 0
    for number in range(launch.num_boxes):
        at = number * BOX_SLOTS
        if launch.boxes[at + Pending.ARRIVAL] == arrival and launch.failure == Failure.NONE:
            size = box_lines(launch.boxes[at + Pending.MAP]) * LINE
            missing = load_i32(arrival + 4) - size
            if missing < 0:
                thread = launch.boxes[at + Pending.THREAD]
                fail(launch, Failure.EXPECTED, thread, Site.ARRIVAL, arrival, size)
            elif land_box(launch, at):
                store_i32(arrival + 4, missing)
                if missing == 0:
                    store_i32(arrival, load_i32(arrival) + 1)
        else:
            for slot in range(BOX_SLOTS):
                launch.boxes[kept * BOX_SLOTS + slot] = launch.boxes[at + slot]
            kept += 1
    launch.num_boxes = kept


@kernel
def has_arrived(launch: Launch, thread: i64) -> bool:
    """Whether what a thread waits for has arrived an odd or even number of times, as it wants."""
    at = ROW * thread + Slot.EXCHANGE
    return load_i32(launch.threads[at]) % 2 != launch.threads[at + 1]


@kernel
def serve_arrivals(launch: Launch) -> bool:
    """Let threads go on that wait for bytes; if none can, land what the first one waits for."""
    waiting = -1
    for thread in range(launch.num_threads):
        if waiting < 0 and launch.threads[ROW * thread + Slot.STATE] == State.ARRIVAL:
            waiting = thread
    if waiting < 0:
        return False
    served = False
    for attempt in range(2):
        for thread in range(launch.num_threads):
            at = ROW * thread
            if launch.threads[at + Slot.STATE] == State.ARRIVAL and has_arrived(launch, thread):
                address = launch.threads[at + Slot.EXCHANGE]
                launch.threads[at + Slot.STATE] = State.READY
                served = True
                if not access(launch, thread, address, ARRIVAL_BYTES, Site.ARRIVAL, False):
                    return False
        if served:
            return True
        if attempt == 0:
            land_boxes(launch, launch.threads[ROW * waiting + Slot.EXCHANGE])
            if launch.failure != Failure.NONE:
                return False
    fail(launch, Failure.NOTHING_ARRIVES, waiting, Site.ARRIVAL, 0, 0)
    return False
