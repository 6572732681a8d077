"""Bank conflicts of accesses by known rules."""

import numpy as np
import pytest

from daedal.common.errors import DeviceError
from daedal.sim.gpu.banks import bank_conflicts
from daedal.sim.gpu.emulator import EmulatedGpu
from tests.support.gpu_kernels import Kernel, run
from tests.support.gpu_text import load, place, shared_place, store

LANES = np.arange(32)
READ = (7, False)


def ways(offsets: np.ndarray, size: int, *, threads: np.ndarray = LANES) -> int:
    """Of one access by each thread."""
    zeros = np.zeros(len(threads), np.int64)
    rows = np.stack([zeros, threads, zeros + 7, offsets, zeros + size], axis=1)
    found = bank_conflicts(rows)
    assert set(found) == {READ}
    return found[READ]


@pytest.mark.parametrize(
    ("stride", "size", "expected"),
    [
        (4, 4, 1),
        (0, 4, 1),  # one word for all
        (2, 2, 1),  # two threads for each word
        (1, 1, 1),
        (8, 4, 2),
        (12, 4, 1),
        (128, 4, 32),
        (132, 4, 1),
        (8, 8, 1),  # in halves
        (16, 8, 2),
        (16, 16, 1),  # in quarters
        (32, 16, 2),
        (64, 16, 4),
        (128, 16, 8),
        (144, 16, 1),
    ],
)
def test_threads_at_equal_distances(stride: int, size: int, expected: int) -> None:
    assert ways(LANES * stride, size) == expected
    assert ways(LANES[::-1] * stride + 128, size) == expected


def test_warps_are_served_one_after_the_other() -> None:
    assert ways(np.arange(64) // 32 * 128 + np.arange(64) % 32 * 4, 4, threads=np.arange(64)) == 1


def test_accesses_of_a_thread_follow_each_other() -> None:
    """Two in a row are no conflict, in whatever order threads ran."""
    threads = np.repeat(np.random.default_rng(0).permutation(32), 2)
    second = np.arange(64) % 2 * 256
    assert ways(threads * 4 + second, 4, threads=threads) == 1
    assert ways(threads * 8 + second, 4, threads=threads) == 2


def kernel(stride: int) -> Kernel:
    """Each thread writes and reads a word of shared memory."""
    body = "  %t = call i64 @gpu.thread.x(ptr %gpu)\n" + shared_place("own", "%t", stride)
    body += place("in", "%a0", "%t") + place("out", "%a1", "%t") + load("x", "in", 0)
    body += store("%x", "own", 1) + load("y", "own", 2) + store("%y", "out", 3)
    return Kernel(body, 2, shared_bytes=32 * stride)


@pytest.mark.parametrize(("stride", "expected"), [(4, 1), (16, 4)])
def test_the_emulator_keeps_accesses_of_shared_memory(stride: int, expected: int) -> None:
    gpu = EmulatedGpu(races=True, num_noted=64, seed=2)
    run(gpu, kernel(stride), [np.ones(32, np.float32), np.zeros(32, np.float32)])
    assert gpu.conflicts() == {(1, True): expected, (2, False): expected}


def test_more_accesses_than_are_kept() -> None:
    gpu = EmulatedGpu(races=True, num_noted=63)
    run(gpu, kernel(4), [np.ones(32, np.float32), np.zeros(32, np.float32)])
    with pytest.raises(DeviceError, match="for at most 63 accesses of shared memory, not 64; lau"):
        gpu.conflicts()
