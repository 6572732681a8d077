"""The CUDA driver's device, on a fake of the driver's library."""

import ctypes
import gc
import math
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from daedal.artifact.gpu_code import TensorMap
from daedal.common.errors import DeviceError, ToolError, UserError
from daedal.compiler.codegen.gpu.emulated import emulated_object
from daedal.native.cpu import host_cpu
from daedal.runtime.devices.cuda.device import CudaGpu, architectures_of
from daedal.runtime.devices.cuda.driver import Driver, open_driver
from daedal.runtime.devices.cuda.names import gpu_report
from daedal.runtime.gpu_device import GpuDevice
from tests.support.fake_cuda import FakeCuda, fake_ptx
from tests.support.gpu_kernels import Kernel

ADD_ONE = Kernel(
    """
  %block = call i64 @gpu.block.x(ptr %gpu)
  %thread = call i64 @gpu.thread.x(ptr %gpu)
  %first = mul i64 %block, 32
  %number = add i64 %first, %thread
  %from = getelementptr i32, ptr %a0, i64 %number
  %to = getelementptr i32, ptr %a1, i64 %number
  %value = load i32, ptr %from
  %sum = add i32 %value, 1
  store i32 %sum, ptr %to
""",
    parameters=2,
    grid=(3, 1, 1),
)
PTX = fake_ptx("kernel", 2)
ONE = (1, 1, 1)


@pytest.fixture(scope="module")
def programs() -> dict[bytes, bytes]:
    return {PTX: emulated_object(ADD_ONE.text(), host_cpu())}


def opened(library: FakeCuda) -> CudaGpu:
    return CudaGpu(driver=Driver(library))


def launch(gpu: CudaGpu, loaded: Any, *arguments: int, shared: int = 0) -> None:
    gpu.launch(loaded, "kernel", ADD_ONE.grid, ADD_ONE.block, shared, arguments)


def numbers(gpu: CudaGpu, address: int) -> list[int]:
    return np.frombuffer(gpu.read(address, 4 * 96), np.int32).tolist()


def test_a_kernel_runs_and_all_is_given_back(programs: dict[bytes, bytes]) -> None:
    library = FakeCuda(programs=programs)
    gpu: GpuDevice = opened(library)
    assert (gpu.name, gpu.architectures[:3]) == ("Fake 0", ("sm_90a", "sm_90", "sm_89"))
    loaded = gpu.load([PTX], ["kernel"])
    source, target = gpu.allocate(4 * 96), gpu.allocate(4 * 96)
    gpu.write(source, np.arange(96, dtype=np.int32).tobytes())
    gpu.launch(loaded, "kernel", ADD_ONE.grid, ADD_ONE.block, 0, [source, target])
    assert library.launched == [], "a launch does not wait"
    gpu.launch(loaded, "kernel", ADD_ONE.grid, ADD_ONE.block, 0, [target, source])
    gpu.synchronize()
    assert library.launched == ["kernel"] * 2
    assert np.frombuffer(gpu.read(source, 4 * 96), np.int32).tolist() == list(range(2, 98))
    assert gpu.read(source, 0) == b""
    gpu.write(source, b"")
    gpu.free(source)
    gpu.free(target)
    del loaded, gpu
    gc.collect()
    assert library.held == {}


def test_a_graph_is_replayed(programs: dict[bytes, bytes]) -> None:
    library = FakeCuda(programs=programs)
    replay(library)
    gc.collect()
    assert library.held == {}


def replay(library: FakeCuda) -> None:
    """Capture two launches, and replay them twice."""
    gpu = opened(library)
    loaded = gpu.load([PTX], ["kernel"])
    source, target = gpu.allocate(4 * 96), gpu.allocate(4 * 96)
    spare = gpu.allocate(256)
    unused = [gpu.load([PTX], ["kernel"])]
    gpu.write(source, bytes(4 * 96))

    def work() -> None:
        launch(gpu, loaded, source, target)
        launch(gpu, loaded, target, source)
        gpu.free(spare)
        unused.clear()

    graph = gpu.capture(work)
    assert numbers(gpu, source) == [0] * 96
    assert spare not in library.held, "what is freed in a capture is freed after it"
    assert gpu.seconds(lambda: gpu.replay(graph)) == pytest.approx(2e-3)
    gpu.replay(graph)
    assert numbers(gpu, source) == [4] * 96
    gpu.free(source)
    gpu.free(target)


@pytest.mark.parametrize(
    "work",
    [
        lambda gpu, _: gpu.synchronize(),
        lambda gpu, address: gpu.read(address, 4),
        lambda gpu, address: gpu.write(address, b"1234"),
        lambda gpu, _: gpu.allocate(4),
    ],
)
def test_only_launches_are_captured(work: Callable[[CudaGpu, int], object]) -> None:
    gpu = opened(FakeCuda())
    address = gpu.allocate(256)
    with pytest.raises(DeviceError, match=r"launches alone \(CUDA_ERROR_STREAM_CAPTURE_UNSUPPO"):
        gpu.capture(lambda: work(gpu, address) and None)
    gpu.write(address, b"1234")
    assert gpu.read(address, 4) == b"1234", "the device is usable afterwards"


def test_another_thread_may_use_it(programs: dict[bytes, bytes]) -> None:
    gpu = opened(FakeCuda(programs=programs))
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(gpu.allocate(256)))
    thread.start()
    thread.join()
    assert len(found) == 1 and found[0] % 256 == 0


@pytest.mark.parametrize("shared", [1, (48 << 10) - 1, 48 << 10, 227 << 10])
def test_shared_memory_is_asked_for(shared: int) -> None:
    library = FakeCuda()
    gpu = opened(library)
    loaded = gpu.load([PTX], ["kernel"])
    for _ in range(2):
        launch(gpu, loaded, 0, 0, shared=shared)
    gpu.synchronize()
    assert library.launched == ["kernel"] * 2
    assert library.calls.count("cuFuncSetAttribute") == 1


def test_too_much_shared_memory_is_refused() -> None:
    gpu = opened(FakeCuda())
    loaded = gpu.load([PTX], ["kernel"])
    with pytest.raises(
        UserError,
        match=r"a block on Fake 0 must have at most 232448 bytes of shared memory, not 232449 "
        r"\('kernel'\); compile the model for this GPU",
    ):
        launch(gpu, loaded, 0, 0, shared=(227 << 10) + 1)


def test_images_of_their_own_or_one_for_all() -> None:
    gpu = opened(FakeCuda())
    gpu.load([fake_ptx("a"), fake_ptx("b")], ["a", "b"])
    gpu.load([fake_ptx("a") + b".visible .entry b()\n{\n}\n"], ["a", "b"])
    with pytest.raises(DeviceError, match="finding kernel 'b' must succeed on the GPU"):
        gpu.load([fake_ptx("a")], ["a", "b"])


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (fake_ptx("kernel", version="9.9"), "the driver is older than this version of PTX"),
        (fake_ptx("kernel", target="sm_100"), "for another generation of GPUs"),
        (fake_ptx("kernel", target="sm_80a"), "compile the model for this GPU"),
        (b"\x7fELF", "neither PTX nor a cubin"),
        (
            b".version 7.0\n.target sm_80\n",
            r"the driver says: ptxas fatal   : nothing to compile\) must succeed .* the PTX has "
            r"errors \(CUDA_ERROR_INVALID_PTX\); report the model",
        ),
    ],
)
def test_what_the_driver_does_not_load(image: bytes, message: str) -> None:
    library = FakeCuda()
    gpu = opened(library)
    with pytest.raises(DeviceError, match=message) as raised:
        gpu.load([fake_ptx("kernel"), image], ["kernel", "other"])
    assert "\n" not in str(raised.value)
    del raised
    gc.collect()
    assert not any(kind[0] == "module" for kind in library.held.values())


def test_memory_that_is_not_there() -> None:
    gpu = opened(FakeCuda(memory_bytes=4096))
    gpu.allocate(4096)
    with pytest.raises(
        DeviceError,
        match=r"^allocating 1 bytes must succeed on the GPU, and it does not: its memory is full "
        r"\(CUDA_ERROR_OUT_OF_MEMORY\); use a smaller model or batch, or end other processes",
    ):
        gpu.allocate(1)


def test_a_machine_without_gpus() -> None:
    with pytest.raises(DeviceError, match=r"the driver finds no GPU \(CUDA_ERROR_NO_DEVICE\)"):
        Driver(FakeCuda(num_devices=0))
    with pytest.raises(UserError, match="the number of a GPU must be below 2, not 2"):
        CudaGpu(number=2, driver=Driver(FakeCuda(num_devices=2)))
    assert CudaGpu(number=1, driver=Driver(FakeCuda(num_devices=2))).name == "Fake 1"


def test_a_machine_without_a_driver() -> None:
    with pytest.raises(ToolError, match=r"need the CUDA driver \(libcuda\), which is missing"):
        open_driver(["libnone.so.1"])


def test_a_driver_that_is_too_old() -> None:
    library = FakeCuda()
    del library.cuGraphInstantiateWithFlags
    with pytest.raises(ToolError, match="must have the function cuGraphInstantiateWithFlags"):
        Driver(library)


def test_a_status_that_nobody_knows() -> None:
    library = FakeCuda(failures={"cuMemAlloc_v2": 12345})
    with pytest.raises(DeviceError, match=r"the driver reports an error \(error 12345\)"):
        opened(library).allocate(4)


def test_after_a_failed_kernel_nothing_is_given_back(programs: dict[bytes, bytes]) -> None:
    """Every call would fail again, at a time when nobody asked for one."""
    library = FakeCuda(programs=programs)
    gpu = opened(library)
    loaded = gpu.load([PTX], ["kernel"])
    address = gpu.allocate(256)
    library.failures["cuStreamSynchronize"] = 700
    with pytest.raises(DeviceError, match="accessed memory that is not allocated"):
        gpu.synchronize()
    calls = len(library.calls)
    gpu.free(address)
    del gpu, loaded
    gc.collect()
    assert len(library.calls) == calls


@pytest.mark.parametrize(
    ("capability", "expected"),
    [
        ((8, 0), ["sm_80"]),
        ((8, 6), ["sm_86", "sm_80"]),
        ((9, 0), ["sm_90a", "sm_90", "sm_89", "sm_87", "sm_86", "sm_80"]),
        ((7, 5), ["sm_75"]),
    ],
)
def test_architectures(capability: tuple[int, int], expected: list[str]) -> None:
    assert list(architectures_of(*capability)) == expected


def test_the_report_names_gpus_and_what_is_missing() -> None:
    report = gpu_report(FakeCuda(num_devices=2).driver)
    assert (report.cuda, report.problem, report.how_to_get) == ("13.0", None, "")
    assert [gpu.name for gpu in report.gpus] == ["Fake 0", "Fake 1"]
    first = report.gpus[0]
    assert (first.architecture, first.multiprocessors) == ("sm_90a", 132)
    assert first.memory_bytes == 1 << 24
    missing = gpu_report(lambda: open_driver(["libnone.so.1"]))
    assert missing.cuda is None and "NVIDIA's driver" in missing.how_to_get
    none = gpu_report(FakeCuda(num_devices=0).driver)
    assert none.problem is not None and "finds no GPU" in none.problem and not none.how_to_get


def test_results_larger_than_32_bits_are_kept() -> None:
    """Addresses have 64 bits, and so has the size of a GPU's memory."""
    driver = Driver(FakeCuda(memory_bytes=80 << 30))
    assert driver.memory_bytes(0) == 80 << 30
    assert math.log2(ctypes.sizeof(ctypes.c_void_p)) == 3


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_maps_of_tensors_need_a_newer_driver(dtype: str) -> None:
    item = TensorMap(0, dtype, (16, 64), (8, 64))
    gpu = opened(FakeCuda())
    assert len(gpu.tensor_map(item, gpu.allocate(2048))) == 128
    with pytest.raises(DeviceError, match=r"making a map of a tensor of \(16, 64\) must succeed"):
        gpu.tensor_map(item, 8)
    old = opened(FakeCuda(version=(11, 8)))
    with pytest.raises(
        ToolError, match="for sm_90a need NVIDIA's driver 525 or newer, and this one"
    ):
        old.tensor_map(item, old.allocate(2048))
