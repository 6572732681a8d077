"""Blocks, threads, barriers and shared memory; what ends a launch."""

import math

import numpy as np
import pytest

from daedal.common.errors import DeviceError
from daedal.native.levels import host_level
from daedal.sim.gpu.emulator import EmulatedGpu
from tests.support.gpu_kernels import Kernel, run
from tests.support.gpu_text import load, place, shared_place, store

SEEDS = (None, 1, 2)


def block_sum(block: int, grid: int = 1) -> Kernel:
    """Each thread adds up what all threads of its block gave, from shared memory."""
    body = (
        "  %t = call i64 @gpu.thread.x(ptr %gpu)\n"
        "  %b = call i64 @gpu.block.x(ptr %gpu)\n"
        f"  %first = mul i64 %b, {block}\n"
        "  %i = add i64 %first, %t\n"
        + place("in", "%a0", "%i")
        + load("x", "in", 0)
        + shared_place("mine", "%t")
        + store("%x", "mine", 1)
        + "  call void @gpu.barrier(ptr %gpu, i32 2)\n"
        "  br label %loop\n"
        "loop:\n"
        "  %k = phi i64 [ 0, %entry ], [ %next, %loop ]\n"
        "  %sum = phi float [ 0.0, %entry ], [ %more, %loop ]\n"
        + shared_place("one", "%k")
        + load("y", "one", 3)
        + "  %more = fadd float %sum, %y\n"
        "  %next = add i64 %k, 1\n"
        f"  %again = icmp slt i64 %next, {block}\n"
        "  br i1 %again, label %loop, label %end\n"
        "end:\n" + place("out", "%a1", "%i") + store("%more", "out", 4)
    )
    return Kernel(body, 2, (block, 1, 1), (grid, 1, 1), 4 * block)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("block", [1, 32, 50, 256])
def test_threads_of_a_block_share_memory(block: int, seed: int | None) -> None:
    given = np.arange(3 * block, dtype=np.float32)
    gpu = EmulatedGpu(races=True, seed=seed)
    _, result = run(gpu, block_sum(block, 3), [given, np.zeros_like(given)])
    sums = given.reshape(3, block).sum(1)
    np.testing.assert_array_equal(result.reshape(3, block), np.repeat(sums[:, None], block, 1))


@pytest.mark.parametrize("seed", SEEDS)
def test_every_thread_of_every_block_runs_once(seed: int | None) -> None:
    grid, block = (3, 2, 2), (4, 3, 2)
    names = [f"{what}.{axis}" for what in ("block", "thread") for axis in "zyx"]
    extents = [*reversed(grid), *reversed(block)]
    lines = ["  %i0 = add i64 0, 0"]
    for number, (name, extent) in enumerate(zip(names, extents, strict=True)):
        lines += [
            f"  %c{number} = call i64 @gpu.{name}(ptr %gpu)",
            f"  %m{number} = mul i64 %i{number}, {extent}",
            f"  %i{number + 1} = add i64 %m{number}, %c{number}",
        ]
    body = "\n".join(lines) + "\n" + place("at", "%a0", "%i6")
    body += load("old", "at", 0, "i32") + "  %w = trunc i64 %i6 to i32\n"
    body += "  %v = add i32 %old, %w\n" + store("%v", "at", 1, "i32")
    count = math.prod(extents)
    gpu = EmulatedGpu(races=True, seed=seed)
    (result,) = run(gpu, Kernel(body, 1, block, grid), [np.ones(count, np.int32)])
    np.testing.assert_array_equal(result, np.arange(count) + 1)


def test_threads_run_in_an_order_from_the_seed() -> None:
    """Each thread counts on in global memory, a race; every block has another order."""
    body = (
        "  %t = call i64 @gpu.thread.x(ptr %gpu)\n"
        "  %b = call i64 @gpu.block.x(ptr %gpu)\n"
        "  %first = mul i64 %b, 64\n"
        "  %i = add i64 %first, %t\n"
        "  %n = load i32, ptr %a0\n"
        "  %more = add i32 %n, 1\n"
        "  store i32 %more, ptr %a0\n" + place("out", "%a1", "%i") + store("%n", "out", 0, "i32")
    )
    kernel = Kernel(body, 2, (64, 1, 1), (2, 1, 1))
    orders = [
        run(EmulatedGpu(seed=seed), kernel, [np.zeros(1, np.int32), np.zeros(128, np.int32)])[1]
        for seed in (None, 1, 1, 2)
    ]
    np.testing.assert_array_equal(orders[0], np.arange(128))
    np.testing.assert_array_equal(orders[1], orders[2])
    assert (orders[1] != orders[3]).any()
    assert (orders[1][:64] != orders[1][64:] - 64).any()
    assert sorted(orders[3]) == list(range(128))


def divergent(first: str, second: str) -> Kernel:
    """Threads from 20 on go another way."""
    return Kernel(
        "  %t = call i64 @gpu.thread.x(ptr %gpu)\n"
        "  %low = icmp ult i64 %t, 20\n"
        "  br i1 %low, label %one, label %two\n"
        f"one:\n{first}  br label %end\n"
        f"two:\n{second}  br label %end\n"
        "end:\n",
        0,
        (50, 1, 1),
        (2, 1, 1),
    )


def test_a_barrier_that_some_threads_never_reach() -> None:
    kernel = divergent("  call void @gpu.barrier(ptr %gpu, i32 7)\n", "")
    with pytest.raises(DeviceError) as caught:
        run(EmulatedGpu(seed=3), kernel, [])
    assert str(caught.value) == (
        "divergent barrier: all threads of a block must come to the same barrier, and in block 0 "
        "of 'kernel' thread 0 waits at site 7, while thread 20 has ended"
    )


def test_two_barriers() -> None:
    kernel = divergent(
        "  call void @gpu.barrier(ptr %gpu, i32 7)\n", "  call void @gpu.barrier(ptr %gpu, i32 8)\n"
    )
    with pytest.raises(DeviceError, match="thread 0 waits at site 7, while thread 20 waits at sit"):
        run(EmulatedGpu(), kernel, [])


def test_threads_that_wait_for_ever() -> None:
    body = "  br label %loop\nloop:\n  call void @gpu.barrier(ptr %gpu, i32 0)\n  br label %loop\n"
    with pytest.raises(DeviceError, match=r"must end after at most 100 barriers"):
        run(EmulatedGpu(max_passes=100), Kernel(body + "never:\n", 0), [])


def test_undefined_memory_holds_what_no_kernel_computes() -> None:
    body = shared_place("mine", "0", 4) + (
        "  %x = load float, ptr addrspace(3) %mine\n"
        "  store float %x, ptr %a0\n"
        "  store float 1.0, ptr addrspace(3) %mine\n"
    )
    seen = set()
    for seed in (None, 1, 2, 3, 4, 5):
        gpu = EmulatedGpu(seed=seed)
        fresh = np.frombuffer(gpu.read(gpu.allocate(64), 64), np.uint32)
        kernel = Kernel(body, 1, (1, 1, 1), (2, 1, 1), 4)
        (result,) = run(gpu, kernel, [np.zeros(1, np.float32)])
        assert (fresh == result.view(np.uint32)).all()
        seen.add(int(fresh[0]))
    assert seen == {0xFFA5FFA5, 0xA5A5A5A5}


@pytest.mark.parametrize("races", [False, True])
def test_accesses_outside_of_a_buffer(races: bool) -> None:
    body = "  %t = call i64 @gpu.thread.x(ptr %gpu)\n" + place("at", "%a0", "%t")
    body += store("1.0", "at", 5)
    kernel = Kernel(body, 1, (40, 1, 1))
    with pytest.raises(DeviceError, match="thread 33 of block 0 of 'kernel' accesses 4 bytes from"):
        run(EmulatedGpu(races=races), kernel, [np.zeros(33, np.float32)])


def test_accesses_outside_of_shared_memory() -> None:
    body = "  %t = call i64 @gpu.thread.x(ptr %gpu)\n" + shared_place("at", "%t")
    body += store("1.0", "at", 5)
    with pytest.raises(DeviceError) as caught:
        run(EmulatedGpu(), Kernel(body, 0, (32, 1, 1), shared_bytes=126), [])
    assert str(caught.value) == (
        "an access must stay inside the memory of its kernel, and thread 31 of block 0 of 'kernel' "
        "accesses 4 bytes from byte 124 of shared memory at site 5"
    )


def test_memory_that_was_freed() -> None:
    gpu = EmulatedGpu()
    kept, freed = gpu.allocate(16), gpu.allocate(16)
    gpu.free(freed)
    gpu.write(kept, b"12345")
    assert gpu.read(kept + 1, 3) == b"234"
    with pytest.raises(DeviceError, match="a copy must stay inside what is allocated"):
        gpu.read(freed, 1)
    with pytest.raises(DeviceError, match="a copy must stay inside what is allocated, and 3 bytes"):
        gpu.write(kept + 14, b"abc")
    with pytest.raises(DeviceError, match="memory to free must be allocated"):
        gpu.free(freed)
    with pytest.raises(DeviceError, match="must have at least one byte, not 0"):
        gpu.allocate(0)


def test_a_stack_that_is_too_small() -> None:
    body = (
        "  %big = alloca [70000 x i8], align 16\n"
        "  call void @llvm.memset.p0.i64(ptr %big, i8 1, i64 70000, i1 true)\n"
    )
    kernel = Kernel(body, 0, (2, 1, 1), more="declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
    gpu = EmulatedGpu()
    run(gpu, block_sum(64), [np.zeros(64, np.float32), np.zeros(64, np.float32)])
    with pytest.raises(DeviceError, match=r"than its stack has, and thread \d of block 0"):
        run(gpu, kernel, [])


def test_extents_that_no_gpu_has() -> None:
    with pytest.raises(DeviceError, match=r"1 to 1024 threads, and 'kernel' has \(1, 1, 1\) bl"):
        run(EmulatedGpu(), Kernel("", 0, (1025, 1, 1)), [])
    with pytest.raises(DeviceError, match="must have at least one block"):
        run(EmulatedGpu(), Kernel("", 0, grid=(1, 0, 1)), [])
    with pytest.raises(DeviceError, match="at most 232448 bytes of shared memory, not 232449"):
        run(EmulatedGpu(), Kernel("", 0, shared_bytes=232449), [])


def test_images_that_cannot_be_linked() -> None:
    unknown = Kernel("  call void @gpu.unknown()\n", 0, more="declare void @gpu.unknown()\n")
    with pytest.raises(DeviceError, match=r"object code .* cannot be linked"):
        run(EmulatedGpu(), unknown, [])
    with pytest.raises(DeviceError, match="cannot be linked"):
        EmulatedGpu().load([b"no object code"], ["kernel"])


def test_its_architectures_are_levels_of_this_processor() -> None:
    assert EmulatedGpu().architectures[0] == f"emulated-{host_level()}"


def test_functions_of_the_c_library() -> None:
    body = (
        "  %t = call i64 @gpu.thread.x(ptr %gpu)\n" + place("at", "%a0", "%t") + load("x", "at", 0)
        + "  %y = call float @gpu.log.f32(float %x)\n"
        "  %z = call float @gpu.pow.f32(float %y, float 2.0)\n" + store("%z", "at", 1)
    )  # fmt: skip
    more = "declare float @gpu.log.f32(float)\ndeclare float @gpu.pow.f32(float, float)\n"
    given = np.linspace(1, 8, 32, dtype=np.float32)
    (result,) = run(EmulatedGpu(), Kernel(body, 1, more=more), [given])
    np.testing.assert_allclose(result, np.log(given) ** 2, rtol=1e-6)
