"""Products of groups of four warps, against numpy and the layouts of the PTX ISA.

Source: NVIDIA, PTX ISA 8.0, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions".
"""

from dataclasses import replace

import numpy as np
import pytest

from daedal.common.errors import DeviceError
from daedal.sim.gpu.emulator import EmulatedGpu
from daedal.sim.gpu.reports import Kind
from tests.support.gpu_kernels import Array, Kernel, run
from tests.support.gpu_text import load, place, shared_place, store

THREADS, ROWS, COLUMNS, TERMS = 128, 64, 64, 64
WORDS = 64 * 128 // 4
"""Of an operand in shared memory: 64 lines of 128 bytes."""

DECLARED = """
declare i64 @gpu.matrix(ptr, ptr addrspace(3), i64, i64)
declare void @gpu.fence.copies(ptr)
declare void @gpu.wgmma.fence.n64.f32(ptr, ptr, i64, i64)
declare void @gpu.wgmma.finish.n64.f32(ptr, ptr, i64, i64)
declare void @gpu.wgmma.wait(ptr, i32)
declare void @gpu.wgmma.commit(ptr)
declare void @gpu.wgmma.m64n64k16.f16.kk(ptr, i64, i64, ptr, i64, i64)
"""
OF_SUMS = "ptr %gpu, ptr %sums, i64 64, i64 1"


def call(name: str, given: str = "ptr %gpu") -> str:
    return f"  call void @gpu.{name}({given})\n"


FENCE, FINISH = call("wgmma.fence.n64.f32", OF_SUMS), call("wgmma.finish.n64.f32", OF_SUMS)
COMMIT, PUBLISH = call("wgmma.commit"), call("fence.copies")
BARRIER = call("barrier", "ptr %gpu, i32 0")


def filled() -> str:
    """Both operands, which lie in the input as they are to be in shared memory."""
    text = "  %t = call i64 @gpu.thread.x(ptr %gpu)\n  br label %fill\nfill:\n"
    text += "  %n = phi i64 [ 0, %entry ], [ %more, %fill ]\n"
    text += f"  %all = mul i64 %n, {THREADS}\n  %word = add i64 %all, %t\n"
    text += place("in", "%a0", "%word") + shared_place("to", "%word")
    text += load("v", "in", 1, "i32") + store("%v", "to", 2, "i32")
    text += f"  %more = add i64 %n, 1\n  %again = icmp ult i64 %more, {2 * WORDS // THREADS}\n"
    return text + "  br i1 %again, label %fill, label %filled\nfilled:\n"


def products() -> str:
    text = "  %sh = call ptr addrspace(3) @gpu.shared(ptr %gpu)\n"
    for step in range(TERMS // 16):
        for name, first in (("a", 0), ("b", 4 * WORDS)):
            at = f"%m{name}{step}"
            text += f"  {at}p = getelementptr i8, ptr addrspace(3) %sh, i64 {first + 32 * step}\n"
            given = f"ptr %gpu, ptr addrspace(3) {at}p, i64 0, i64 1024"
            text += f"  {at} = call i64 @gpu.matrix({given})\n"
        given = f"ptr %gpu, i64 %ma{step}, i64 %mb{step}, ptr %sums, i64 64, i64 1"
        text += call("wgmma.m64n64k16.f16.kk", given)
    return text


def kernel(middle: str, threads: int = THREADS) -> Kernel:
    """The sums of a thread, which begin as 1, are its words of the output."""
    text = filled() + f"  %sums = alloca [{2 * COLUMNS} x float]\n"
    for number in range(COLUMNS // 2):
        element = number // 4 * 8 + number % 2 + number % 4 // 2 * 64
        text += f"  %s{number} = getelementptr float, ptr %sums, i64 {element}\n"
        text += f"  store float 1.0, ptr %s{number}\n"
    text += middle + f"  %own = mul i64 %t, {COLUMNS // 2}\n"
    for number in range(COLUMNS // 2):
        text += f"  %r{number} = load float, ptr %s{number}\n"
        text += f"  %o{number} = add i64 %own, {number}\n" + place(
            f"q{number}", "%a1", f"%o{number}"
        )
        text += store(f"%r{number}", f"q{number}", 3)
    return Kernel(text, 2, (threads, 1, 1), shared_bytes=8 * WORDS, more=DECLARED)


FINE = PUBLISH + BARRIER + FENCE + products() + COMMIT + FINISH


def swizzled(matrix: Array) -> Array:
    """64 rows of 64 elements: the chunk c of a line l is at ``c ^ l % 8``."""
    found = np.zeros((64, 8, 8), matrix.dtype)
    for line in range(64):
        for chunk in range(8):
            found[line, chunk ^ line % 8] = matrix[line, 8 * chunk : 8 * chunk + 8]
    return found.reshape(64, 64)


def result(gpu: EmulatedGpu, made: Kernel, a: Array, b: Array) -> Array:
    image = np.stack([swizzled(a), swizzled(b)])
    _, found = run(gpu, made, [image, np.zeros((THREADS, COLUMNS // 2), np.float32)])
    sums = np.zeros((ROWS, COLUMNS), np.float32)
    for thread in range(THREADS):
        for number in range(COLUMNS // 2):
            row = thread // 32 * 16 + thread % 32 // 4 + number % 4 // 2 * 8
            sums[row, number // 4 * 8 + thread % 4 * 2 + number % 2] = found[thread, number]
    return sums


def operands() -> tuple[Array, Array]:
    rng = np.random.default_rng(7)
    a, b = (rng.standard_normal((64, 64)).astype(np.float16) for _ in range(2))
    return a, b


@pytest.mark.parametrize("seed", [None, 1])
def test_products(seed: int | None) -> None:
    a, b = operands()
    found = result(EmulatedGpu(races=True, seed=seed), kernel(FINE), a, b)
    np.testing.assert_allclose(found, 1 + a.astype(float) @ b.T.astype(float), atol=1e-5)


def test_sums_are_what_they_were_until_a_wait() -> None:
    early = FINE.replace(FINISH, "").replace(COMMIT, COMMIT + call("wgmma.wait", "ptr %gpu, i32 1"))
    later = kernel(early)
    after = "  ret void\n"
    body = later.body + FINISH + after
    found = result(EmulatedGpu(), replace(later, body=body.removesuffix(after)), *operands())
    assert (found == 1).all()


MORE = products().replace("%", "%x").replace("%xgpu", "%gpu").replace("%xsums", "%sums")
LEFT_OUT = {
    "a fence": (FINE.replace(FENCE, ""), "sums must be fenced before each group of products"),
    "the second fence": (FINE.replace(COMMIT, COMMIT + MORE), "sums must be fenced before each gr"),
    "a commit": (FINE.replace(COMMIT, ""), "all products of a group of warps must be waited for"),
    "a wait": (FINE.replace(FINISH, ""), "all products of a group of warps must be waited for"),
}


@pytest.mark.parametrize("what", LEFT_OUT)
def test_what_is_left_out(what: str) -> None:
    middle, message = LEFT_OUT[what]
    with pytest.raises(DeviceError, match=f"{message}.* thread 0 of block 0 of 'kernel'"):
        result(EmulatedGpu(races=True), kernel(middle), *operands())


ZERO = store("0", "to", 5, "i32")
"""To the last word that a thread has filled."""
UNORDERED = {
    "no fence of copies": (FINE.replace(PUBLISH, ""), {Kind.READ_UNFENCED}),
    "no barrier": (FINE.replace(BARRIER, ""), {Kind.WRITE_READ, Kind.UNWRITTEN}),
    "no wait": (FINE.replace(COMMIT, COMMIT + BARRIER + ZERO), {Kind.WRITE_UNDER_PRODUCT}),
    "no barrier behind the wait": (FINE + ZERO, {Kind.READ_WRITE}),
}


@pytest.mark.parametrize("what", UNORDERED)
def test_operands_that_nothing_orders(what: str) -> None:
    """They may be replaced when the group is done, and a barrier has told the other threads."""
    middle, kinds = UNORDERED[what]
    gpu = EmulatedGpu(races=True)
    with pytest.raises(DeviceError, match="must be ordered by barriers"):
        result(gpu, kernel(middle), *operands())
    assert {race.kind for race in gpu.races} <= kinds


def test_operands_are_replaced_behind_a_barrier() -> None:
    middle = FINE + BARRIER + ZERO
    result(EmulatedGpu(races=True), kernel(middle), *operands())


def test_an_operand_outside_of_shared_memory() -> None:
    made = replace(kernel(FINE.replace("i64 0, i64 1024", "i64 0, i64 2048")))
    with pytest.raises(
        DeviceError, match="2 bytes from byte 16384 of shared memory at a product of"
    ):
        result(EmulatedGpu(races=True), made, *operands())


def test_too_many_products() -> None:
    loop = FENCE + "  br label %again0\nagain0:\n  %c = phi i32 [ 0, %filled ], [ %d, %again0 ]\n"
    loop += products() + "  %d = add i32 %c, 1\n  %g = icmp ult i32 %d, COUNT\n"
    loop += "  br i1 %g, label %again0, label %end0\nend0:\n" + COMMIT + FINISH
    middle = PUBLISH + BARRIER + loop
    found = result(EmulatedGpu(), kernel(middle.replace("COUNT", "16")), *operands())
    assert np.isfinite(found).all()
    with pytest.raises(DeviceError, match="at most 64 products of a group of warps may be under"):
        result(EmulatedGpu(), kernel(middle.replace("COUNT", "17")), *operands())


def test_threads_that_do_not_come_along() -> None:
    divided = (
        "  %low = icmp ult i64 %t, 64\n  br i1 %low, label %first, label %rest\nfirst:\n"
        + FENCE
        + "  br label %rest\nrest:\n"
    )
    with pytest.raises(DeviceError, match="all threads of four warps must come to the same operat"):
        result(EmulatedGpu(), kernel(divided), *operands())


def test_operands_differ_between_threads() -> None:
    middle = FINE.replace(
        "%ma0 = call i64 @gpu.matrix(ptr %gpu, ptr addrspace(3) %ma0p, i64 0, i64",
        "%ma0 = call i64 @gpu.matrix(ptr %gpu, ptr addrspace(3) %ma0p, i64 %t, i64",
    )
    middle = middle.replace("i64 %t, i64 1024", "i64 %many, i64 1024")
    with pytest.raises(DeviceError, match="the same operands, and in block 0 of 'kernel' thread 0"):
        result(EmulatedGpu(), kernel("  %many = mul i64 %t, 16\n" + middle), *operands())


def test_too_few_warps() -> None:
    made = Kernel("  %sums = alloca [128 x float]\n" + FENCE, 1, (96, 1, 1), more=DECLARED)
    with pytest.raises(
        DeviceError, match="need groups of 128 threads, and that of thread 0 of block"
    ):
        run(EmulatedGpu(), made, [np.zeros(1, np.float32)])
