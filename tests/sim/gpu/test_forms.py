"""Kernels of the emulator do the same as machine code, as checked machine code and as Python."""

import ctypes

import numpy as np
import pytest

from daedal.sim.gpu.block import Block
from daedal.sim.gpu.copies import begin_copy, wait_for_copies
from daedal.sim.gpu.device_memory import DeviceMemory
from daedal.sim.gpu.raw_memory import fill_words, store_i64
from daedal.sim.gpu.reports import Failure
from daedal.sim.gpu.thread import ROW, Slot, State, Waiting
from daedal.sim.gpu.warps import serve_warps
from tests.support.gpu_kernels import Array

FORMS = ("machine", "checked", "plain")


MATRICES = {item for item in Waiting if item.name.startswith("LDMATRIX")}


def prepared(races: bool = True) -> Block:
    """A block of one warp with 512 bytes of shared memory, in its first epoch."""
    block = Block(DeviceMemory(0, races), 0x7FC00000, races, None, 1)
    block.prepare(0, (1, 1, 1), (32, 1, 1), 512, 0)
    launch = block.launch
    launch.launch_first = launch.block_first = launch.epoch = 1
    for word in range(128):
        fill_words.plain(launch.shared + 4 * word, 1, 0x3C00_0000 + 0x1_0001 * word)
    return block


def served(operation: Waiting, form: str) -> Array:
    """The threads' rows after an operation of random operands."""
    block = prepared(races=False)
    launch = block.launch
    rng = np.random.default_rng(3)
    rows = launch.threads.reshape(-1, ROW)[:32]
    floats = rng.standard_normal((32, 12)).astype(np.float16)
    rows[:, Slot.EXCHANGE : Slot.EXCHANGE + 3] = floats.view(np.int64)
    rows[:, Slot.EXCHANGE + 3 : Slot.EXCHANGE + 5] = (
        rng.standard_normal((32, 4)).astype(np.float32).view(np.int64)
    )
    if operation in MATRICES:
        rows[:, Slot.EXCHANGE] = launch.shared + 16 * np.arange(32)
    rows[:, Slot.STATE], rows[:, Slot.WAITING] = State.WARP, operation
    call = {"machine": serve_warps, "checked": serve_warps.checked, "plain": serve_warps.plain}
    assert call[form](launch)
    assert launch.failure == Failure.NONE
    assert (rows[:, Slot.STATE] == State.READY).all()
    if operation in MATRICES:
        rows[:, Slot.EXCHANGE] -= launch.shared
    return rows.copy()


@pytest.mark.parametrize("operation", Waiting)
def test_operations_of_warps(operation: Waiting) -> None:
    first, *others = (served(operation, form) for form in FORMS)
    for other in others:
        np.testing.assert_array_equal(other, first)


@pytest.mark.parametrize("form", FORMS)
def test_copies(form: str) -> None:
    begin = {"machine": begin_copy, "checked": begin_copy.checked, "plain": begin_copy.plain}[form]
    wait = {
        "machine": wait_for_copies,
        "checked": wait_for_copies.checked,
        "plain": wait_for_copies.plain,
    }[form]
    block = prepared()
    launch = block.launch
    shared = launch.shared
    words = np.ctypeslib.as_array((ctypes.c_int32 * 128).from_address(shared))
    before = words.copy()
    store_i64.plain(shared, 77)
    before[:2] = 77, 0
    assert begin(launch, 3, shared + 64, shared, 16, 12)
    launch.threads[ROW * 3 + Slot.GROUPS] = 1
    assert begin(launch, 3, shared + 32, shared, 4, 4)
    launch.threads[ROW * 3 + Slot.GROUPS] = 2
    np.testing.assert_array_equal(words, before)
    wait(launch, 3, 1)
    before[16:20] = 77, 0, before[2], 0
    np.testing.assert_array_equal(words, before)
    wait(launch, 3, 0)
    before[8] = 77
    np.testing.assert_array_equal(words, before)
    assert not begin(launch, 3, shared + 2, shared, 4, 4)
    assert launch.failure == Failure.COPY_SHAPE
