"""Copies of boxes land when a thread waits for them, swizzled, with zeros outside of the tensor.

Source: NVIDIA, PTX ISA 8.0, "Tensors", "cp.async.bulk.tensor", "mbarrier".
"""

import numpy as np
import pytest

from daedal.artifact.gpu_code import TensorMap
from daedal.common.errors import DeviceError
from daedal.compiler.codegen.gpu.emulated import emulated_object
from daedal.native.cpu import host_cpu
from daedal.sim.gpu.emulator import EmulatedGpu
from daedal.sim.gpu.reports import Kind
from tests.support.gpu_kernels import Array, Kernel
from tests.support.gpu_text import load, place, shared_place, store

SHARED = "ptr addrspace(3)"
DECLARED = f"""
declare void @gpu.arrivals.begin(ptr, {SHARED}, i32)
declare void @gpu.arrivals.expect(ptr, {SHARED}, i32)
declare void @gpu.arrivals.wait(ptr, {SHARED}, i32)
declare void @gpu.box.copy.2d(ptr, {SHARED}, ptr, {SHARED}, i32, i32)
declare void @gpu.box.copy.3d(ptr, {SHARED}, ptr, {SHARED}, i32, i32, i32)
"""
LINES = 8
BOX_BYTES = 128 * LINES
BEGIN = f"  call void @gpu.arrivals.begin(ptr %gpu, {SHARED} %at, i32 2)\n"
BARRIER = "  call void @gpu.barrier(ptr %gpu, i32 0)\n"
SHAPE = (12, 80)
GIVEN = np.arange(1, 1 + 12 * 80, dtype=np.float16).reshape(SHAPE)


def expect(size: int = BOX_BYTES, at: str = "at") -> str:
    return f"  call void @gpu.arrivals.expect(ptr %gpu, {SHARED} %{at}, i32 {size})\n"


def copy(*first: int, to: str = "to", at: str = "at") -> str:
    given = "".join(f", i32 {number}" for number in first)
    places = f"{SHARED} %{to}, ptr %m0, {SHARED} %{at}"
    return f"  call void @gpu.box.copy.{len(first)}d(ptr %gpu, {places}{given})\n"


def wait(parity: int = 0, at: str = "at") -> str:
    return f"  call void @gpu.arrivals.wait(ptr %gpu, {SHARED} %{at}, i32 {parity})\n"


def alone(text: str, label: str = "a") -> str:
    """By the first thread."""
    return (
        f"  %first{label} = icmp eq i64 %t, 0\n"
        f"  br i1 %first{label}, label %in{label}, label %out{label}\nin{label}:\n{text}"
        f"  br label %out{label}\nout{label}:\n"
    )


def kernel(middle: str) -> Kernel:
    """Each thread copies its words of the box to the output afterwards."""
    text = "  %t = call i64 @gpu.thread.x(ptr %gpu)\n"
    text += shared_place("to", "0") + shared_place("at", "1024") + shared_place("next", "1026")
    text += shared_place("odd", "32") + middle
    for number in range(BOX_BYTES // 4 // 32):
        text += f"  %n{number} = add i64 %t, {32 * number}\n"
        text += shared_place(f"s{number}", f"%n{number}") + place(
            f"o{number}", "%a1", f"%n{number}"
        )
        text += load(f"v{number}", f"s{number}", 7, "i32") + store(
            f"%v{number}", f"o{number}", 8, "i32"
        )
    return Kernel(text, 2, (32, 1, 1), shared_bytes=4 * 1030, more=DECLARED)


def result(gpu: EmulatedGpu, middle: str, item: TensorMap, given: Array = GIVEN) -> Array:
    """The lines of a box."""
    made = kernel(middle).text()
    text = made.text.replace("ptr noalias %a1)", "ptr noalias %a1, ptr %m0)")
    made = type(made)(**{**vars(made), "text": text, "maps": (item,)})
    loaded = gpu.load([emulated_object(made, host_cpu())], ["kernel"])
    addresses = [gpu.allocate(given.nbytes), gpu.allocate(BOX_BYTES)]
    gpu.write(addresses[0], given.tobytes())
    arguments = [*addresses, gpu.tensor_map(item, addresses[0])]
    gpu.launch(loaded, "kernel", made.grid, made.block, made.shared_bytes, arguments)
    found = np.frombuffer(gpu.read(addresses[1], BOX_BYTES), np.float16).reshape(LINES, 8, 8)
    return np.stack([found[line, np.arange(8) ^ line % 8] for line in range(LINES)]).reshape(
        LINES, 64
    )


MAP = TensorMap(0, "float16", SHAPE, (LINES, 64))
FINE = alone(BEGIN + expect() + copy(16, 3)) + BARRIER + wait() + BARRIER


@pytest.mark.parametrize("seed", [None, 1])
def test_a_box_that_is_waited_for(seed: int | None) -> None:
    found = result(EmulatedGpu(races=True, seed=seed), FINE, MAP)
    np.testing.assert_array_equal(found, GIVEN[3:11, 16:80])


@pytest.mark.parametrize(("x", "y"), [(-3, -2), (60, 9), (100, 0), (0, 12)])
def test_zeros_lie_around_a_tensor(x: int, y: int) -> None:
    around = np.pad(GIVEN, ((8, 8), (64, 64)))
    found = result(EmulatedGpu(races=True), FINE.replace("i32 16, i32 3", f"i32 {x}, i32 {y}"), MAP)
    np.testing.assert_array_equal(
        found, around[8 + y : 16 + y, 64 + x : 128 + x][:8] if x < 80 else 0
    )


def test_boxes_of_three_dimensions() -> None:
    """Of two planes with two lines each in both: the last dimension is the first coordinate."""
    given = np.arange(3 * 5 * 64, dtype=np.float16).reshape(3, 5, 64)
    item = TensorMap(0, "float16", given.shape, (2, 4, 64))
    middle = FINE.replace("box.copy.2d", "box.copy.3d").replace(
        "i32 16, i32 3", "i32 0, i32 1, i32 2"
    )
    found = result(EmulatedGpu(races=True), middle, item, given)
    np.testing.assert_array_equal(found[:4], given[2, 1:5])
    np.testing.assert_array_equal(found[4:], 0)


def test_a_place_counts_again_and_again() -> None:
    """The wait says whether for the first time, the second, and so on, modulo two."""
    again = alone(expect() + copy(0, 1), "b") + wait(1) + BARRIER
    found = result(EmulatedGpu(races=True), FINE + again, MAP)
    np.testing.assert_array_equal(found, GIVEN[1:9, :64])


def test_nothing_lands_before_a_wait() -> None:
    early = FINE.replace(wait(), "")
    found = result(EmulatedGpu(), early, MAP)
    assert np.isnan(found).all()
    gpu = EmulatedGpu(races=True)
    with pytest.raises(DeviceError, match="while an asynchronous copy of thread 0"):
        result(gpu, early, MAP)
    assert gpu.races[0].kind == Kind.READ_IN_FLIGHT


def test_a_barrier_must_show_what_counts() -> None:
    gpu = EmulatedGpu(races=True)
    with pytest.raises(DeviceError, match="at a count of arriving bytes reads byte 4096"):
        result(gpu, FINE.replace(BARRIER + wait(), wait()), MAP)


REFUSED = {
    "fewer bytes": (FINE.replace("i32 1024)", "i32 512)"), "bytes that are expected, once, and th"),
    "more bytes": (FINE.replace("i32 1024)", "i32 2048)"), "be expected, and brought by copies, a"),
    "twice": (FINE.replace(expect(), expect() * 2), "must bring the bytes that are expected, once"),
    "nothing expected": (
        FINE.replace(expect(), ""),
        "must bring the bytes that are expected, once",
    ),
    "the wrong turn": (FINE.replace(wait(), wait(0) + wait(1)), "must be expected, and brought by"),
    "another place": (
        FINE.replace(wait(), wait(at="next")),
        "must be expected, and brought by cop",
    ),
    "an odd address": (
        FINE.replace(f"{SHARED} %to,", f"{SHARED} %odd,"),
        "to a multiple of 1024 b",
    ),
    "outside": (
        FINE.replace(f"{SHARED} %to,", f"{SHARED} %far,"),
        "accesses 1024 bytes from byte 4",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_copies_that_no_gpu_does(what: str) -> None:
    middle, message = REFUSED[what]
    with pytest.raises(DeviceError, match=message):
        result(EmulatedGpu(), shared_place("far", "1024") + middle, MAP)


def test_a_line_has_128_bytes() -> None:
    with pytest.raises(DeviceError, match="must bring lines of 128 bytes to a multiple of 1024"):
        result(EmulatedGpu(), FINE, TensorMap(0, "float16", SHAPE, (LINES, 32)))


def test_too_many_boxes() -> None:
    loop = "  br label %again\nagain:\n  %c = phi i32 [ 0, %ina ], [ %d, %again ]\n" + copy(0, 0)
    loop += "  %d = add i32 %c, 1\n  %g = icmp ult i32 %d, 257\n"
    loop += "  br i1 %g, label %again, label %end\nend:\n"
    with pytest.raises(
        DeviceError, match="at most 256 copies of boxes of a block may be under way"
    ):
        result(EmulatedGpu(), alone(BEGIN + expect() + loop), MAP)
