"""Sectors of global memory by known rules."""

import numpy as np
import pytest

from daedal.common.errors import DeviceError
from daedal.sim.gpu.emulator import EmulatedGpu
from daedal.sim.gpu.sectors import Requests, sector_requests
from tests.support.gpu_kernels import Kernel, run
from tests.support.gpu_text import load, place, store

LANES = np.arange(32)
READ = (7, False)


def requests(addresses: np.ndarray, size: int, threads: np.ndarray = LANES) -> Requests:
    """Of one access by each thread."""
    zeros = np.zeros(len(threads), np.int64)
    rows = np.stack([zeros, threads, zeros + 7, addresses, zeros + size], axis=1)
    found = sector_requests(rows)
    assert set(found) == {READ}
    return found[READ]


@pytest.mark.parametrize(
    ("stride", "size", "sectors", "used"),
    [
        (4, 4, 4, 1.0),
        (0, 4, 1, 1 / 8),  # one word for all
        (2, 2, 2, 1.0),
        (8, 4, 8, 1 / 2),
        (16, 16, 16, 1.0),
        (32, 16, 32, 1 / 2),
        (128, 4, 32, 1 / 8),
    ],
)
def test_threads_at_equal_distances(stride: int, size: int, sectors: int, used: float) -> None:
    found = requests(LANES * stride + 256, size)
    assert (found.count, found.sectors, found.used) == (1, sectors, used)
    assert requests(LANES[::-1] * stride + 256, size) == found


def test_what_begins_inside_a_sector_needs_one_more() -> None:
    assert requests(LANES * 4 + 16, 4) == Requests(1, 5, 128)


def test_each_warp_and_each_access_is_a_request() -> None:
    """In whatever order threads ran; a thread that leaves one out takes its turn."""
    threads = np.repeat(np.random.default_rng(0).permutation(64), 2)
    second = np.arange(128) % 2 * 4096
    assert requests(threads * 4 + second, 4, threads) == Requests(4, 16, 512)
    zeros = np.zeros(128, np.int64)
    size = np.where((threads < 16) & (second == 0), 0, 4)
    rows = np.stack([zeros, threads, zeros + 7, threads * 4 + second, size], axis=1)
    assert sector_requests(rows)[READ] == Requests(4, 14, 448)


def kernel(stride: int) -> Kernel:
    """Each thread copies a word."""
    body = "  %t = call i64 @gpu.thread.x(ptr %gpu)\n"
    body += f"  %far = mul i64 %t, {stride}\n"
    body += place("in", "%a0", "%far") + place("out", "%a1", "%t")
    return Kernel(body + load("x", "in", 0) + store("%x", "out", 1), 2)


@pytest.mark.parametrize(("stride", "sectors"), [(1, 4), (8, 32)])
def test_the_emulator_keeps_accesses_of_global_memory(stride: int, sectors: int) -> None:
    gpu = EmulatedGpu(num_requested=64, seed=2)
    run(gpu, kernel(stride), [np.ones(32 * stride, np.float32), np.zeros(32, np.float32)])
    assert gpu.requests() == {
        (0, False): Requests(1, sectors, 128),
        (1, True): Requests(1, 4, 128),
    }


def test_more_accesses_than_are_kept() -> None:
    gpu = EmulatedGpu(num_requested=63)
    run(gpu, kernel(1), [np.ones(32, np.float32), np.zeros(32, np.float32)])
    with pytest.raises(DeviceError, match="for at most 63 accesses of global memory, not 64; lau"):
        gpu.requests()
