"""Accesses that nothing orders are found in every order of the threads."""

from dataclasses import replace

import numpy as np
import pytest

from daedal.common.errors import DeviceError
from daedal.sim.gpu.emulator import EmulatedGpu
from daedal.sim.gpu.reports import KEPT, Kind
from tests.support.gpu_kernels import Array, Kernel, run
from tests.support.gpu_text import load, place, shared_place, store

SEEDS = (None, 1, 2, 3)
THREAD = "  %t = call i64 @gpu.thread.x(ptr %gpu)\n"
BARRIER = "  call void @gpu.barrier(ptr %gpu, i32 100)\n"


def without_barrier(kernel: Kernel) -> Kernel:
    return replace(kernel, body=kernel.body.replace(BARRIER, ""))


def raced(gpu: EmulatedGpu, kernel: Kernel, arrays: list[Array]) -> str:
    """The error's sentence."""
    with pytest.raises(DeviceError) as caught:
        run(gpu, kernel, arrays)
    return str(caught.value)


def shift() -> Kernel:
    """Each thread passes its number on to the thread before it, through shared memory."""
    body = (
        THREAD + "  %w = trunc i64 %t to i32\n"
        "  %after = add i64 %t, 1\n  %other = urem i64 %after, 40\n"
        + shared_place("mine", "%t")
        + store("%w", "mine", 0, "i32")
        + BARRIER
        + shared_place("next", "%other")
        + load("x", "next", 1, "i32")
        + place("out", "%a0", "%t")
        + store("%x", "out", 2, "i32")
    )
    return Kernel(body, 1, (40, 1, 1), (2, 1, 1), 160)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_write_and_a_read_without_the_barrier_between(seed: int | None) -> None:
    out = [np.zeros(40, np.int32)]
    # Both blocks write the same results, which is a race of its own.
    kernel = replace(shift(), grid=(1, 1, 1))
    (result,) = run(EmulatedGpu(races=True, seed=seed), kernel, out)
    np.testing.assert_array_equal(result, (np.arange(40) + 1) % 40)
    gpu = EmulatedGpu(races=True, seed=seed)
    assert "of shared memory" in raced(gpu, without_barrier(kernel), out)
    # Each byte is read too early or just after its write.
    assert gpu.num_races >= 160
    for race in gpu.races:
        assert race.kind == Kind.UNWRITTEN or abs(race.thread - race.other_thread) in (1, 39)
    run(EmulatedGpu(seed=seed), without_barrier(kernel), out)


@pytest.mark.parametrize("seed", SEEDS)
def test_blocks_of_one_launch_that_write_the_same(seed: int | None) -> None:
    gpu = EmulatedGpu(races=True, seed=seed)
    sentence = raced(gpu, shift(), [np.zeros(40, np.int32)])
    assert gpu.num_races == 160
    assert len(gpu.races) == KEPT
    assert {race.kind for race in gpu.races} == {Kind.WRITE_WRITE}
    assert "of block 1 at site 2 writes the byte at 0x" in sentence
    assert "of block 0 at site 2 in 'kernel' (160 such accesses of bytes)" in sentence


def rotating(barrier_at_end: bool) -> Kernel:
    """Three times: each thread writes its element, all read the next one's."""
    body = (
        THREAD + "  %after = add i64 %t, 1\n  %other = urem i64 %after, 32\n"
        + shared_place("mine", "%t") + shared_place("next", "%other")
        + "  br label %loop\n"
        "loop:\n"
        "  %k = phi i32 [ 0, %entry ], [ %more, %loop ]\n"
        + store("%k", "mine", 0, "i32")
        + "  call void @gpu.barrier(ptr %gpu, i32 1)\n"
        + load("x", "next", 2, "i32")
        + ("  call void @gpu.barrier(ptr %gpu, i32 3)\n" if barrier_at_end else "")
        + "  %more = add i32 %k, 1\n"
        "  %again = icmp ult i32 %more, 3\n"
        "  br i1 %again, label %loop, label %end\n"
        "end:\n" + place("out", "%a0", "%t") + store("%x", "out", 4, "i32")
    )  # fmt: skip
    return Kernel(body, 1, shared_bytes=128)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_write_after_reads_around_a_loop(seed: int | None) -> None:
    out = [np.zeros(32, np.int32)]
    (result,) = run(EmulatedGpu(races=True, seed=seed), rotating(True), out)
    assert (result == 2).all()
    gpu = EmulatedGpu(races=True, seed=seed)
    raced(gpu, rotating(False), out)
    # Either the write comes after the read of another thread in its epoch, or before it.
    assert {race.kind for race in gpu.races} <= {Kind.READ_WRITE, Kind.WRITE_READ}
    assert gpu.num_races == 2 * 32 * 4


def test_the_sentence_names_both_threads_and_sites() -> None:
    body = THREAD + shared_place("one", "0") + store("1.0", "one", 7)
    sentence = raced(EmulatedGpu(races=True), Kernel(body, 0, (2, 1, 1), shared_bytes=4), [])
    assert sentence == (
        "accesses must be ordered by barriers, and thread 1 of block 0 at site 7 writes byte 0 of "
        "shared memory, and so does thread 0 of block 0 at site 7 in 'kernel' (4 such accesses of "
        "bytes)"
    )


def one_of_two(first: str, second: str) -> Kernel:
    """Thread 0 does one thing, thread 1 another."""
    return Kernel(
        THREAD + shared_place("one", "0") + "  %zero = icmp eq i64 %t, 0\n"
        "  br i1 %zero, label %a, label %b\n"
        f"a:\n{first}  br label %end\nb:\n{second}  br label %end\nend:\n",
        0,
        (2, 1, 1),
        shared_bytes=4,
    )


@pytest.mark.parametrize(
    ("first", "second", "kind"),
    [
        (store("1.0", "one", 0), load("x", "one", 1), Kind.WRITE_READ),
        (store("1.0", "one", 0) + load("x", "one", 1), store("1.0", "one", 2), Kind.WRITE_WRITE),
    ],
)
def test_kinds_of_races(first: str, second: str, kind: Kind) -> None:
    gpu = EmulatedGpu(races=True)
    raced(gpu, one_of_two(first, second), [])
    assert gpu.races[0].kind == kind
    assert (gpu.races[0].thread, gpu.races[0].other_thread) == (1, 0)


def test_a_writer_that_read_before_meets_the_other_reader() -> None:
    """Thread 1 reads as well as thread 0, then thread 0 writes."""
    body = (
        THREAD + place("one", "%a0", "0") + load("x", "one", 0)
        + "  %last = icmp eq i64 %t, 1\n"
        "  br i1 %last, label %a, label %end\n"
        "a:\n" + store("1.0", "one", 1) + "  br label %end\nend:\n"
    )  # fmt: skip
    for seed in SEEDS:
        gpu = EmulatedGpu(races=True, seed=seed)
        raced(gpu, Kernel(body, 1, (2, 1, 1)), [np.zeros(1, np.float32)])
        assert gpu.num_races == 4
        assert {race.thread for race in gpu.races} | {race.other_thread for race in gpu.races} == {
            0,
            1,
        }


def test_shared_memory_that_nothing_wrote() -> None:
    body = shared_place("one", "0") + load("x", "one", 3)
    written = store("1.0", "one", 2)
    kernel = Kernel(body, 0, (1, 1, 1), (2, 1, 1), 4)
    gpu = EmulatedGpu(races=True)
    sentence = raced(gpu, kernel, [])
    assert "at site 3 reads byte 0 of shared memory, which no thread of the block" in sentence
    assert gpu.num_races == 8
    fine = shared_place("one", "0") + written + load("x", "one", 3)
    run(gpu, replace(kernel, body=fine), [])
    # What an earlier launch wrote is gone.
    raced(gpu, kernel, [])
    run(EmulatedGpu(), kernel, [])


def test_blocks_that_read_what_another_one_writes_later() -> None:
    """All blocks read element 0; the last one writes it."""
    body = (
        "  %b = call i64 @gpu.block.x(ptr %gpu)\n" + place("one", "%a0", "0") + load("x", "one", 0)
        + "  %last = icmp eq i64 %b, 2\n"
        "  br i1 %last, label %a, label %end\n"
        "a:\n" + store("1.0", "one", 1) + "  br label %end\nend:\n"
    )  # fmt: skip
    kernel = Kernel(body, 1, (1, 1, 1), (3, 1, 1))
    gpu = EmulatedGpu(races=True)
    raced(gpu, kernel, [np.zeros(1, np.float32)])
    race = gpu.races[0]
    assert (race.kind, race.block, race.other_block) == (Kind.READ_WRITE, 2, 0)
    alone = replace(kernel, grid=(2, 1, 1))
    run(gpu, alone, [np.zeros(1, np.float32)])


def test_launches_are_ordered() -> None:
    body = place("one", "%a0", "0") + store("1.0", "one", 0)
    gpu = EmulatedGpu(races=True)
    for _ in range(2):
        run(gpu, Kernel(body, 1, (1, 1, 1)), [np.zeros(1, np.float32)])
    assert gpu.num_races == 0
