"""Shuffles, ldmatrix and products of matrices, against numpy and the layouts of the PTX ISA.

Source: NVIDIA, PTX ISA 8.0, "Matrix Fragments for mma.m16n8k16 with floating point type", "Matrix
Fragments for mma.m16n8k32", "ldmatrix". The layouts here are written as the document has them: the
place of each element from the thread's number.
"""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from daedal.common.errors import DeviceError
from daedal.sim.gpu.emulator import EmulatedGpu
from daedal.sim.gpu.reports import Kind
from tests.support.gpu_kernels import Array, Kernel, run
from tests.support.gpu_text import load, place, shared_place, store

THREAD = "  %t = call i64 @gpu.thread.x(ptr %gpu)\n"
LANES = np.arange(32)
GROUP, IN_GROUP = LANES // 4, LANES % 4


def words(base: str, count: int, value: str, kind: str, parameter: str) -> str:
    """``%value0`` and so on: the `count` words of this thread."""
    lines = f"  %{base} = mul i64 %t, {count}\n"
    for number in range(count):
        lines += f"  %{base}{number} = add i64 %{base}, {number}\n"
        lines += place(f"{base}p{number}", parameter, f"%{base}{number}")
        lines += f"  %{value}{number} = load {kind}, ptr %{base}p{number}.g, align 4\n"
    return lines


def stores(base: str, count: int, struct: str, kind: str, parameter: str) -> str:
    """The elements of ``%r`` to the thread's words."""
    lines = f"  %{base} = mul i64 %t, {count}\n"
    for number in range(count):
        lines += f"  %r{number} = extractvalue {struct} %r, {number}\n"
        lines += f"  %{base}{number} = add i64 %{base}, {number}\n"
        lines += place(f"{base}p{number}", parameter, f"%{base}{number}")
        lines += f"  store {kind} %r{number}, ptr %{base}p{number}.g, align 4\n"
    return lines


def product_kernel(name: str, kind: str) -> Kernel:
    struct = "{" + ", ".join([kind] * 4) + "}"
    given = ", ".join(
        [*(f"i32 %a{n}x" for n in range(4)), *(f"i32 %b{n}x" for n in range(2))]
        + [f"{kind} %c{n}x" for n in range(4)]
    )
    body = THREAD
    for letter, count, of, parameter in (
        ("a", 4, "i32", "%a0"),
        ("b", 2, "i32", "%a1"),
        ("c", 4, kind, "%a2"),
    ):
        text = words(f"{letter}at", count, letter, of, parameter)
        for number in range(count):
            text = text.replace(f"%{letter}{number} = load", f"%{letter}{number}x = load")
        body += text
    body += f"  %r = call {struct} @gpu.mma.{name}(ptr %gpu, {given})\n"
    return Kernel(body + stores("d", 4, struct, kind, "%a3"), 4)


def a_fragment(a: Array, width: int) -> Array:
    """(16, k) to each thread's elements, `width` of which make a word."""
    found = np.zeros((32, 4 * width), a.dtype)
    for i in range(4 * width):
        row = GROUP + (8 if i // width % 2 else 0)
        column = IN_GROUP * width + i % width + (4 * width if i >= 2 * width else 0)
        found[:, i] = a[row, column]
    return found


def b_fragment(b: Array, width: int) -> Array:
    """(k, 8) to each thread's elements."""
    found = np.zeros((32, 2 * width), b.dtype)
    for i in range(2 * width):
        row = IN_GROUP * width + i % width + (4 * width if i >= width else 0)
        found[:, i] = b[row, GROUP]
    return found


def c_fragment(c: Array) -> Array:
    """(16, 8) to each thread's elements."""
    found = np.zeros((32, 4), c.dtype)
    for i in range(4):
        found[:, i] = c[GROUP + (8 if i >= 2 else 0), IN_GROUP * 2 + i % 2]
    return found


def bf16_bits(values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    return (values.view(np.uint32) >> 16).astype(np.uint16)


@pytest.mark.parametrize("seed", [None, 1])
@pytest.mark.parametrize("name", ["m16n8k16.f16", "m16n8k16.bf16", "m16n8k32.s8"])
def test_products(name: str, seed: int | None) -> None:
    rng = np.random.default_rng(5)
    kernel = product_kernel(name, "i32" if name.endswith("s8") else "float")
    if name.endswith("s8"):
        a = rng.integers(-128, 128, (16, 32), np.int8)
        b = rng.integers(-128, 128, (32, 8), np.int8)
        c = rng.integers(-(2**31), 2**31, (16, 8)).astype(np.int32)
        width, parts = 4, (a, b)
        expected = (a.astype(np.int64) @ b + c).astype(np.int32)
    else:
        a32, b32, c = (
            rng.standard_normal(shape).astype(np.float32) for shape in ((16, 16), (16, 8), (16, 8))
        )
        width = 2
        if name.endswith(".f16"):
            parts = (a32.astype(np.float16), b32.astype(np.float16))
            a32, b32 = (part.astype(np.float32) for part in parts)
        else:
            parts = (bf16_bits(a32), bf16_bits(b32))
            a32, b32 = (
                (part.astype(np.uint32) << 16).view(np.float32).reshape(part.shape)
                for part in parts
            )
        expected = a32.astype(np.float64) @ b32 + c
    arrays = [
        a_fragment(parts[0], width).view(np.int32),
        b_fragment(parts[1], width).view(np.int32),
        c_fragment(c),
        np.zeros((32, 4), c.dtype),
    ]
    result = run(EmulatedGpu(seed=seed), kernel, arrays)[3]
    if c.dtype == np.int32:
        np.testing.assert_array_equal(result, c_fragment(expected))
    else:
        np.testing.assert_allclose(result, c_fragment(expected), rtol=1e-6, atol=1e-6)


def matrices_kernel(name: str, shift: int = 0) -> Kernel:
    """Shared memory gets the input, 32 rows of 16 bytes, a row from each thread."""
    count = 2 if ".x2" in name else 4
    struct = "{" + ", ".join(["i32"] * count) + "}"
    body = THREAD + place("in", "%a0", "%t", 16) + shared_place("row", "%t", 16)
    body += load("x", "in", 0, "<4 x i32>", 16) + store("%x", "row", 1, "<4 x i32>", 16)
    body += f"  %at = getelementptr i8, ptr addrspace(3) %row, i64 {shift}\n"
    body += "  call void @gpu.barrier(ptr %gpu, i32 2)\n"
    body += f"  %r = call {struct} @gpu.{name}(ptr %gpu, ptr addrspace(3) %at)\n"
    return Kernel(body + stores("d", count, struct, "i32", "%a1"), 2, shared_bytes=512)


@pytest.mark.parametrize("seed", [None, 1])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("count", [2, 4])
def test_ldmatrix(count: int, transposed: bool, seed: int | None) -> None:
    """Threads without a row write one all the same, which no matrix has."""
    given = np.random.default_rng(6).integers(0, 1 << 16, (4, 8, 8)).astype(np.uint16)
    name = f"ldmatrix.x{count}{'.trans' if transposed else ''}"
    arrays = [given, np.zeros((32, count), np.int32)]
    result = run(EmulatedGpu(races=True, seed=seed), matrices_kernel(name), arrays)[1]
    turned = (given.transpose(0, 2, 1) if transposed else given)[:count]
    # A thread has elements 2 * (t % 4) and the next one of row t / 4 of each matrix.
    expected = turned.reshape(count, 32, 2).transpose(1, 0, 2)
    np.testing.assert_array_equal(result.view(np.uint16).reshape(32, count, 2), expected)


def test_rows_that_ldmatrix_cannot_read() -> None:
    arrays = [np.zeros((4, 8, 8), np.uint16), np.zeros((32, 4), np.int32)]
    with pytest.raises(DeviceError, match="thread 0 of block 0 of 'kernel' is at byte 8 of shared"):
        run(EmulatedGpu(), matrices_kernel("ldmatrix.x4", 8), arrays)
    with pytest.raises(DeviceError, match="thread 31 of block 0 of 'kernel' is at byte 512 of sh"):
        run(EmulatedGpu(), matrices_kernel("ldmatrix.x4", 16), arrays)


def test_ldmatrix_without_the_barrier_before() -> None:
    kernel = matrices_kernel("ldmatrix.x4")
    kernel = replace(
        kernel, body=kernel.body.replace("  call void @gpu.barrier(ptr %gpu, i32 2)\n", "")
    )
    arrays = [np.zeros((4, 8, 8), np.uint16), np.zeros((32, 4), np.int32)]
    # Each row is read by the thread that wrote it: no race.
    run(EmulatedGpu(races=True), kernel, arrays)
    other = kernel.body.replace("addrspace(3) %row, i64 0", "addrspace(3) %flip, i64 0")
    flip = "  %o = xor i64 %t, 1\n" + shared_place("flip", "%o", 16)
    other = other.replace(place("in", "%a0", "%t", 16), flip + place("in", "%a0", "%t", 16))
    gpu = EmulatedGpu(races=True)
    with pytest.raises(DeviceError, match="at ldmatrix reads byte"):
        run(gpu, replace(kernel, body=other), arrays)
    assert gpu.races[0].kind == Kind.WRITE_READ


def shuffle_sum(block: int) -> Kernel:
    """Each thread gets the sum of its warp."""
    body = THREAD + place("at", "%a0", "%t") + load("x0", "at", 0)
    for number in range(5):
        body += (
            f"  %y{number} = call float @gpu.shuffle.xor.f32(ptr %gpu, float %x{number}, "
            f"i32 {1 << number})\n  %x{number + 1} = fadd float %x{number}, %y{number}\n"
        )
    return Kernel(body + store("%x5", "at", 1), 1, (block, 1, 1))


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_shuffles(seed: int | None) -> None:
    given = np.arange(96, dtype=np.float32)
    (result,) = run(EmulatedGpu(races=True, seed=seed), shuffle_sum(96), [given])
    sums = given.reshape(3, 32).sum(1)
    np.testing.assert_array_equal(result.reshape(3, 32), np.repeat(sums[:, None], 32, 1))


def test_a_shuffle_with_threads_that_do_not_exist_is_undefined() -> None:
    (result,) = run(EmulatedGpu(), shuffle_sum(40), [np.ones(40, np.float32)])
    assert (result[:32] == 32).all()
    assert np.isnan(result[32:]).all()


def test_operations_that_a_part_of_a_warp_executes() -> None:
    body = (
        THREAD + "  %low = icmp ult i64 %t, 35\n  br i1 %low, label %a, label %b\n"
        "a:\n  %y = call float @gpu.shuffle.xor.f32(ptr %gpu, float 1.0, i32 1)\n  br label %b\n"
        "b:\n"
    )
    with pytest.raises(DeviceError, match="in block 0 of 'kernel' thread 32 waits for one that th"):
        run(EmulatedGpu(), Kernel(body, 0, (64, 1, 1)), [])
    small = replace(product_kernel("m16n8k16.f16", "float"), block=(48, 1, 1))
    arrays = [np.zeros((48, count), np.int32) for count in (4, 2, 4, 4)]
    with pytest.raises(DeviceError, match="need warps of 32 threads, and that of thread 32 of b"):
        run(EmulatedGpu(), small, arrays)
