"""Asynchronous copies land when they must, and what touches bytes in flight is found."""

from dataclasses import replace

import numpy as np
import pytest

from daedal.common.errors import DeviceError
from daedal.sim.gpu.emulator import EmulatedGpu
from daedal.sim.gpu.reports import Kind
from tests.support.gpu_kernels import Array, Kernel, run
from tests.support.gpu_text import load, place, shared_place, store

THREAD = "  %t = call i64 @gpu.thread.x(ptr %gpu)\n"
COMMIT = "  call void @gpu.commit(ptr %gpu)\n"
BARRIER = "  call void @gpu.barrier(ptr %gpu, i32 0)\n"
GIVEN = np.arange(1, 65, dtype=np.float32)


def wait(newest: int) -> str:
    return f"  call void @gpu.wait(ptr %gpu, i32 {newest})\n"


def copy(to: str, source: str, size: int = 4, valid: int | str = 4) -> str:
    given = f"ptr addrspace(3) %{to}, ptr %{source}.g, i32 {size}, i32 {valid}"
    return f"  call void @gpu.copy(ptr %gpu, {given})\n"


def kernel(middle: str, threads: int = 32) -> Kernel:
    """Thread t has ``%mine`` (element t of shared memory), ``%second`` (32 + t), ``%next`` and
    ``%in`` (element t of its input); its ``%x`` goes to the output."""
    body = (
        THREAD
        + f"  %after = add i64 %t, 1\n  %other = urem i64 %after, {threads}\n"
        + "  %far = add i64 %t, 32\n"
        + shared_place("mine", "%t")
        + shared_place("second", "%far")
        + shared_place("next", "%other")
        + place("in", "%a0", "%t")
        + place("in2", "%a0", "%far")
        + middle
        + place("out", "%a1", "%t")
        + store("%x", "out", 9)
    )
    return Kernel(body, 2, (threads, 1, 1), shared_bytes=256)


def result(gpu: EmulatedGpu, made: Kernel) -> Array:
    return run(gpu, made, [GIVEN, np.zeros(32, np.float32)])[1]


def raced(made: Kernel) -> EmulatedGpu:
    gpu = EmulatedGpu(races=True)
    with pytest.raises(DeviceError, match="must be ordered by barriers"):
        result(gpu, made)
    return gpu


FINE = copy("mine", "in") + COMMIT + wait(0) + BARRIER + load("x", "next", 1)


@pytest.mark.parametrize("seed", [None, 1])
def test_a_copy_that_is_waited_for(seed: int | None) -> None:
    made = kernel(FINE)
    np.testing.assert_array_equal(
        result(EmulatedGpu(races=True, seed=seed), made), np.roll(GIVEN[:32], -1)
    )


@pytest.mark.parametrize("missing", [COMMIT, wait(0)])
def test_copies_that_nothing_waits_for_are_never_seen(missing: str) -> None:
    made = kernel(FINE.replace(missing, ""))
    assert np.isnan(result(EmulatedGpu(), made)).all()
    assert raced(made).races[0].kind == Kind.READ_IN_FLIGHT


def test_a_barrier_is_needed_as_well() -> None:
    gpu = raced(kernel(FINE.replace(BARRIER, "")))
    assert gpu.races[0].kind in (Kind.WRITE_READ, Kind.UNWRITTEN, Kind.READ_IN_FLIGHT)


def test_the_newest_groups_need_not_have_landed() -> None:
    two = copy("mine", "in") + COMMIT + copy("second", "in2") + COMMIT
    first = kernel(two + wait(1) + load("x", "mine", 1))
    np.testing.assert_array_equal(result(EmulatedGpu(races=True), first), GIVEN[:32])
    early = kernel(two + wait(1) + load("x", "second", 1))
    assert np.isnan(result(EmulatedGpu(), early)).all()
    assert raced(early).races[0].kind == Kind.READ_IN_FLIGHT
    late = kernel(two + wait(0) + load("x", "second", 1))
    np.testing.assert_array_equal(result(EmulatedGpu(races=True), late), GIVEN[32:])


def test_the_rest_of_a_copy_is_zero() -> None:
    quarter = "  %first = icmp eq i64 %t, 0\n  br i1 %first, label %a, label %b\na:\n"
    quarter += copy("mine", "in", 16, 8) + COMMIT + wait(0) + "  br label %b\nb:\n"
    made = kernel(quarter + load("x", "mine", 1), 32)
    found = result(EmulatedGpu(), made)
    np.testing.assert_array_equal(found[:4], [1, 2, 0, 0])
    nothing = kernel(copy("mine", "in", 4, 0) + COMMIT + wait(0) + load("x", "mine", 1))
    assert (result(EmulatedGpu(races=True), nothing) == 0).all()


def test_a_write_to_bytes_in_flight() -> None:
    made = kernel(
        copy("mine", "in") + COMMIT + store("1.0", "mine", 3) + wait(0) + load("x", "mine", 1)
    )
    assert raced(made).races[0].kind == Kind.WRITE_IN_FLIGHT
    twice = copy("mine", "in") + copy("mine", "in2") + COMMIT + wait(0) + load("x", "mine", 1)
    assert raced(kernel(twice)).races[0].kind == Kind.WRITE_IN_FLIGHT


def test_a_source_that_is_written_while_its_copy_is_under_way() -> None:
    """A barrier orders the write after the begin of the copy, but not after its end."""
    body = copy("mine", "in") + COMMIT + BARRIER + store("5.0", "in", 4) + wait(0)
    made = kernel(body + load("x", "mine", 1))
    assert (result(EmulatedGpu(), made) == 5).all()
    race = raced(made).races[0]
    assert (race.kind, race.site, race.other_site) == (Kind.WRITE_READ, -1, 4)
    ordered = body.replace(BARRIER, "").replace(wait(0), "").replace(COMMIT, COMMIT + wait(0))
    result(EmulatedGpu(races=True), kernel(ordered + load("x", "mine", 1)))


def test_a_copy_to_bytes_that_others_read_in_this_epoch() -> None:
    """A second buffer that is filled before all have read the first one."""
    body = FINE + copy("mine", "in2") + COMMIT + wait(0)
    gpu = raced(kernel(body))
    assert gpu.races[0].kind == Kind.READ_WRITE
    assert gpu.races[0].site == -1
    ordered = body.replace(load("x", "next", 1), load("x", "next", 1) + BARRIER)
    result(EmulatedGpu(races=True), kernel(ordered))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (copy("mine", "in", 5), "must have 4, 8 or 16 bytes, at addresses that are multiples"),
        (copy("mine", "in", 4, 5), "must have 4, 8 or 16 bytes"),
        (
            copy("mine", "in", 16, 0),
            "thread 1 of block 0 of .kernel. to byte 4 of shared memory has 16",
        ),
        (copy("mine", "in2", 4), "accesses 4 bytes from the byte at 0x[0-9a-f]+ in global memory"),
    ],
)
def test_copies_that_no_gpu_does(call: str, message: str) -> None:
    short = [np.zeros(32, np.float32), np.zeros(32, np.float32)]
    made = kernel(call + "  %x = fadd float 0.0, 0.0\n")
    with pytest.raises(DeviceError, match=message):
        run(EmulatedGpu(), made, short)


def test_a_copy_outside_of_shared_memory() -> None:
    made = replace(kernel(copy("second", "in") + load("x", "in", 0)), shared_bytes=128)
    with pytest.raises(DeviceError, match="4 bytes from byte 128 of shared memory at an asynchr"):
        result(EmulatedGpu(), made)


def test_too_many_copies() -> None:
    body = (
        THREAD + shared_place("mine", "%t") + place("in", "%a0", "%t") + "  br label %loop\nloop:\n"
        "  %k = phi i32 [ 0, %entry ], [ %more, %loop ]\n" + copy("mine", "in")
        + "  %more = add i32 %k, 1\n"
        "  %again = icmp ult i32 %more, COUNT\n"
        "  br i1 %again, label %loop, label %end\nend:\n"
    )  # fmt: skip
    for count, fails in ((128, False), (129, True)):
        made = Kernel(body.replace("COUNT", str(count)), 1, (1, 1, 1), shared_bytes=4)
        if fails:
            with pytest.raises(DeviceError, match="at most 128 asynchronous copies of a thread"):
                run(EmulatedGpu(), made, [GIVEN])
        else:
            run(EmulatedGpu(), made, [GIVEN])
