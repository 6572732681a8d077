"""`FakeCuda`: the library of the CUDA driver, without a GPU.

Its functions have the driver's types and take the same pointers. Work on a stream is done when
somebody waits for it, as late as the driver may. Memory is that of an `EmulatedGpu`, which also
runs kernels: of PTX that `programs` has object code for.
"""

import ctypes
import math
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from daedal.artifact.gpu_code import CORE_BYTES, MAP_ALIGN, MAP_BYTES, Extents, TensorMap
from daedal.common.errors import DeviceError
from daedal.runtime.devices.cuda.driver import Driver
from daedal.runtime.devices.cuda.functions import FUNCTIONS, NEWER_FUNCTIONS
from daedal.sim.gpu.emulator import EmulatedGpu

__all__ = ["FakeCuda", "fake_ptx"]

_NAMES = {
    1: b"CUDA_ERROR_INVALID_VALUE",
    2: b"CUDA_ERROR_OUT_OF_MEMORY",
    100: b"CUDA_ERROR_NO_DEVICE",
    200: b"CUDA_ERROR_INVALID_IMAGE",
    201: b"CUDA_ERROR_INVALID_CONTEXT",
    209: b"CUDA_ERROR_NO_BINARY_FOR_GPU",
    218: b"CUDA_ERROR_INVALID_PTX",
    222: b"CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
    400: b"CUDA_ERROR_INVALID_HANDLE",
    500: b"CUDA_ERROR_NOT_FOUND",
    700: b"CUDA_ERROR_ILLEGAL_ADDRESS",
    900: b"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
    901: b"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
}
_MAX_SHARED = 227 << 10
_ATTRIBUTES = {16: 132, 97: _MAX_SHARED}
"""Multiprocessors and shared memory of a block, as an H100 has them."""
_STATIC_SHARED = 48 << 10
_MAX_THREADS = 1024
_LAUNCH_SECONDS = 1e-3

_CONTEXT_FREE = ("cuInit", "cuDriver", "cuGetErrorName", "cuDevice", "cuCtxSetCurrent")


class _StatusError(Exception):
    """A function returns this number."""


def fake_ptx(
    symbol: str, parameters: int = 0, *, version: str = "7.0", target: str = "sm_80"
) -> bytes:
    """PTX with a kernel that does nothing."""
    head = f".version {version}\n.target {target}\n.address_size 64\n"
    given = ", ".join(f".param .u64 {symbol}_param_{number}" for number in range(parameters))
    return f"{head}.visible .entry {symbol}({given})\n{{\n\tret;\n}}\n".encode()


_ELF_HEADER_BYTES = 64
_ADDRESS_BYTES = 8
_MAP_DTYPES = {0: "int8", 6: "float16", 9: "bfloat16"}


@dataclass(frozen=True)
class _Function:
    symbol: str
    parameters: tuple[int, ...]
    loaded: Any


@dataclass
class _Capture:
    work: list[Callable[[], None]] = field(default_factory=list)
    is_valid: bool = True


class FakeCuda:
    """The library. Attributes of the functions' names are functions of ctypes.

    Parameters
    ----------
    capability, num_devices, version : of the GPUs, and the newest CUDA.
    ptx_version : the newest that the driver compiles.
    memory_bytes : of a GPU.
    programs : object code of emulated kernels, by PTX that stands for it.
    cubins : the same by cubins: the compute capability that each is for, the numbers of its
        kernels' parameters, and the object code.
    failures : the status that a function returns, by its name.

    Attributes
    ----------
    calls : names of functions, in order.
    launched : symbols of kernels that have run.
    held : what is not given back: memory by address, and kinds by handle.
    """

    def __init__(
        self,
        *,
        capability: tuple[int, int] = (9, 0),
        num_devices: int = 1,
        version: tuple[int, int] = (13, 0),
        ptx_version: tuple[int, int] = (9, 0),
        memory_bytes: int = 1 << 24,
        programs: Mapping[bytes, bytes] | None = None,
        cubins: Mapping[bytes, tuple[tuple[int, int], Mapping[str, int], bytes]] | None = None,
        failures: Mapping[str, int] | None = None,
    ) -> None:
        self.calls: list[str] = []
        self.launched: list[str] = []
        self.held: dict[int, Any] = {}
        self.failures = dict(failures or {})
        self._attributes = {75: capability[0], 76: capability[1], **_ATTRIBUTES}
        self._capability, self._num_devices = capability, num_devices
        self._version, self._ptx_version = version, ptx_version
        self._memory_bytes, self._programs = memory_bytes, programs or {}
        self._cubins = cubins or {}
        self._emulator = EmulatedGpu()
        self._handles = 0
        self._current: dict[int, int] = {}
        self._functions: dict[int, _Function] = {}
        self._queue: list[Callable[[], None]] = []
        self._capture: _Capture | None = None
        self._allowed_shared: dict[int, int] = {}
        self._seconds = 0.0
        for name, kinds in (FUNCTIONS | (NEWER_FUNCTIONS if version >= (12, 0) else {})).items():
            prototype = ctypes.CFUNCTYPE(ctypes.c_int, *kinds)
            setattr(self, name, prototype(partial(self._called, name)))

    def driver(self) -> Driver:
        """A driver on this library."""
        return Driver(self)

    def _called(self, name: str, *arguments: Any) -> int:
        self.calls.append(name)
        if name in self.failures:
            return self.failures[name]
        if not name.startswith(_CONTEXT_FREE) and not self._is_entered():
            return 201
        try:
            getattr(self, f"_{name.split('_')[0]}")(*arguments)
        except _StatusError as error:
            return int(error.args[0])
        return 0

    def _is_entered(self) -> bool:
        return self._current.get(threading.get_ident(), 0) in self.held

    def _new(self, kind: Any) -> int:
        self._handles += 16
        self.held[self._handles] = kind
        return self._handles

    def _drop(self, handle: int | None) -> Any:
        if handle not in self.held:
            raise _StatusError(400)
        return self.held.pop(handle)

    def _outside_capture(self) -> None:
        if self._capture is not None:
            self._capture.is_valid = False
            raise _StatusError(900)

    def _do(self, work: Callable[[], None]) -> None:
        (self._queue if self._capture is None else self._capture.work).append(work)

    def _finish(self) -> None:
        work, self._queue = self._queue, []
        for item in work:
            item()

    def _cuInit(self, flags: int) -> None:
        if flags or not self._num_devices:
            raise _StatusError(1 if flags else 100)

    def _cuDriverGetVersion(self, result: int) -> None:
        _int(result, 1000 * self._version[0] + 10 * self._version[1])

    def _cuGetErrorName(self, status: int, result: int) -> None:
        if status not in _NAMES:
            raise _StatusError(1)
        ctypes.c_char_p.from_address(result).value = _NAMES[status]

    def _cuDeviceGetCount(self, result: int) -> None:
        _int(result, self._num_devices)

    def _cuDeviceGet(self, result: int, number: int) -> None:
        if not 0 <= number < self._num_devices:
            raise _StatusError(101)
        _int(result, number)

    def _cuDeviceGetName(self, result: int, size: int, device: int) -> None:
        name = f"Fake {device}".encode() + b"\0"
        ctypes.memmove(result, name, min(size, len(name)))

    def _cuDeviceGetAttribute(self, result: int, attribute: int, _device: int) -> None:
        _int(result, self._attributes[attribute])

    def _cuDeviceTotalMem(self, result: int, _device: int) -> None:
        ctypes.c_size_t.from_address(result).value = self._memory_bytes

    def _cuDevicePrimaryCtxRetain(self, result: int, _device: int) -> None:
        _pointer(result, self._new("context"))

    def _cuDevicePrimaryCtxRelease(self, _device: int) -> None:
        self._drop(next((key for key, kind in self.held.items() if kind == "context"), None))

    def _cuCtxSetCurrent(self, context: int | None) -> None:
        if self.held.get(context or 0) != "context":
            raise _StatusError(201)
        self._current[threading.get_ident()] = context or 0

    def _cuModuleLoadDataEx(
        self, result: int, image: int, count: int, options: int, values: int
    ) -> None:
        for cubin, (capability, parameters, program) in self._cubins.items():
            same_head = ctypes.string_at(image, _ELF_HEADER_BYTES) == cubin[:_ELF_HEADER_BYTES]
            if same_head and ctypes.string_at(image, len(cubin)) == cubin:
                major, minor = self._capability
                if major != capability[0] or minor < capability[1]:
                    raise _StatusError(209)
                loaded = self._emulator.load([program], list(parameters))
                sizes = {name: (_ADDRESS_BYTES,) * count for name, count in parameters.items()}
                _pointer(result, self._new(("module", sizes, loaded)))
                return
        text = ctypes.string_at(image)
        version = re.match(
            rb"(?:(?://.*)?\n)*\.version (\d+)\.(\d+)\n\.target sm_(\d+)(a?)\n", text
        )
        if version is None:
            raise _StatusError(200)
        major, minor, target = (int(version.group(number)) for number in (1, 2, 3))
        own = 10 * self._capability[0] + self._capability[1]
        if (major, minor) > self._ptx_version:
            raise _StatusError(222)
        if target > own or (version.group(4) and target != own):
            raise _StatusError(209)
        entries = re.findall(rb"\.entry (\w+)\(([^)]*)\)", text)
        if not entries:
            self._log(count, options, values, b"ptxas fatal   : nothing to compile\n")
            raise _StatusError(218)
        parameters = {
            name.decode(): tuple(
                int((re.search(rb"\[(\d+)\]", item) or [b"", b"8"])[1])
                for item in given.split(b",")
                if b".param" in item
            )
            for name, given in entries
        }
        program = self._programs.get(text)
        loaded = None if program is None else self._emulator.load([program], list(parameters))
        _pointer(result, self._new(("module", parameters, loaded)))

    def _log(self, count: int, options: int, values: int, text: bytes) -> None:
        kinds = (ctypes.c_int * count).from_address(options)
        given = (ctypes.c_void_p * count).from_address(values)
        found = dict(zip(kinds, given, strict=True))
        assert len(text) < (found[6] or 0)
        ctypes.memmove(found[5] or 0, text, len(text))

    def _cuModuleUnload(self, module: int) -> None:
        self._outside_capture()
        self._drop(module)

    def _cuModuleGetFunction(self, result: int, module: int, name: int) -> None:
        _, parameters, loaded = self.held[module]
        symbol = ctypes.string_at(name).decode()
        if symbol not in parameters:
            raise _StatusError(500)
        self._handles += 16
        self._functions[self._handles] = _Function(symbol, parameters[symbol], loaded)
        _pointer(result, self._handles)

    def _cuFuncSetAttribute(self, function: int, attribute: int, value: int) -> None:
        if attribute != 8 or value > _MAX_SHARED:
            raise _StatusError(1)
        self._allowed_shared[function] = value

    def _cuMemAlloc(self, result: int, size_bytes: int) -> None:
        self._outside_capture()
        used = sum(kind[1] for kind in self.held.values() if kind[0] == "memory")
        if size_bytes == 0 or used + size_bytes > self._memory_bytes:
            raise _StatusError(2 if size_bytes else 1)
        address = self._emulator.allocate(size_bytes)
        self.held[address] = ("memory", size_bytes)
        ctypes.c_uint64.from_address(result).value = address

    def _cuMemFree(self, address: int) -> None:
        self._outside_capture()
        self._finish()
        self._drop(address)
        self._emulator.free(address)

    def _cuMemcpyHtoDAsync(self, address: int, data: int, size_bytes: int, stream: int) -> None:
        self._on(stream)

        def copy() -> None:
            self._emulator.write(address, ctypes.string_at(data, size_bytes))

        self._do(copy)

    def _cuMemcpyDtoHAsync(self, data: int, address: int, size_bytes: int, stream: int) -> None:
        self._on(stream)

        def copy() -> None:
            ctypes.memmove(data, self._emulator.read(address, size_bytes), size_bytes)

        self._do(copy)

    def _on(self, stream: int) -> None:
        if self.held.get(stream) != "stream":
            raise _StatusError(400)

    def _cuStreamCreate(self, result: int, _flags: int) -> None:
        _pointer(result, self._new("stream"))

    def _cuStreamDestroy(self, stream: int) -> None:
        self._drop(stream)

    def _cuStreamSynchronize(self, stream: int) -> None:
        self._on(stream)
        self._outside_capture()
        self._finish()

    def _cuStreamBeginCapture(self, stream: int, _mode: int) -> None:
        self._on(stream)
        self._capture = _Capture()

    def _cuStreamEndCapture(self, stream: int, result: int) -> None:
        self._on(stream)
        capture, self._capture = self._capture, None
        if capture is None or not capture.is_valid:
            raise _StatusError(901)
        _pointer(result, self._new(("graph", capture.work)))

    def _cuGraphInstantiateWithFlags(self, result: int, graph: int, _flags: int) -> None:
        _pointer(result, self._new(("executable", self.held[graph][1])))

    def _cuGraphLaunch(self, graph: int, stream: int) -> None:
        self._on(stream)
        for work in self.held[graph][1]:
            self._do(work)

    def _cuGraphDestroy(self, graph: int) -> None:
        self._drop(graph)

    def _cuGraphExecDestroy(self, graph: int) -> None:
        self._drop(graph)

    def _cuLaunchKernel(self, function: int, *rest: Any) -> None:
        *numbers, stream, given, extra = rest
        grid, block, shared = tuple(numbers[:3]), tuple(numbers[3:6]), numbers[6]
        self._on(stream)
        most = max(_STATIC_SHARED - 1, self._allowed_shared.get(function, 0))
        threads = block[0] * block[1] * block[2]
        if extra or min(*grid, *block) < 1 or threads > _MAX_THREADS or shared > most:
            raise _StatusError(1)
        kernel = self._functions[function]
        # The driver reads the arguments now: as many as the kernel has.
        sizes = kernel.parameters
        places = (ctypes.c_void_p * len(sizes)).from_address(given or 0)
        arguments = [
            ctypes.c_uint64.from_address(place or 0).value
            if size == _ADDRESS_BYTES
            else ctypes.string_at(place or 0, size)
            for place, size in zip(places, sizes, strict=True)
        ]
        self._do(partial(self._run, kernel, grid, block, shared, arguments))

    def _run(
        self,
        kernel: _Function,
        grid: Extents,
        block: Extents,
        shared: int,
        arguments: list[int | bytes],
    ) -> None:
        self.launched.append(kernel.symbol)
        self._seconds += _LAUNCH_SECONDS
        if kernel.loaded is not None:
            try:
                self._emulator.launch(kernel.loaded, kernel.symbol, grid, block, shared, arguments)
            except DeviceError as error:
                raise _StatusError(700) from error

    def _cuTensorMapEncodeTiled(
        self,
        result: int,
        kind: int,
        rank: int,
        address: int,
        extents: int,
        strides: int,
        box: int,
        steps: int,
        interleave: int,
        swizzle: int,
        _promotion: int,
        fill: int,
    ) -> None:
        shape = tuple((ctypes.c_uint64 * rank).from_address(extents))
        apart = tuple((ctypes.c_uint64 * (rank - 1)).from_address(strides))
        boxes = tuple((ctypes.c_uint * rank).from_address(box))
        size = CORE_BYTES[_MAP_DTYPES[kind]]
        wanted = tuple(size * math.prod(shape[: n + 1]) for n in range(rank - 1))
        fine = (
            result % MAP_ALIGN == 0
            and address % 16 == 0
            and apart == wanted
            and all(item % 16 == 0 for item in apart)
            and all(1 <= item <= 256 for item in boxes)
            and boxes[0] * size == 128
            and set((ctypes.c_uint * rank).from_address(steps)) == {1}
            and (interleave, swizzle, fill) == (0, 3, 0)
        )
        if not fine:
            raise _StatusError(1)
        found = TensorMap(0, _MAP_DTYPES[kind], shape[::-1], boxes[::-1])
        ctypes.memmove(result, self._emulator.tensor_map(found, address), MAP_BYTES)

    def _cuEventCreate(self, result: int, _flags: int) -> None:
        _pointer(result, self._new(("event", [None])))

    def _cuEventRecord(self, event: int, stream: int) -> None:
        self._on(stream)
        moment = self.held[event][1]

        def happen() -> None:
            moment[0] = self._seconds

        self._do(happen)

    def _cuEventSynchronize(self, _event: int) -> None:
        self._outside_capture()
        self._finish()

    def _cuEventElapsedTime(self, result: int, first: int, last: int) -> None:
        begin, end = self.held[first][1][0], self.held[last][1][0]
        if begin is None or end is None:
            raise _StatusError(600)
        ctypes.c_float.from_address(result).value = (end - begin) * 1e3

    def _cuEventDestroy(self, event: int) -> None:
        self._drop(event)


def _int(address: int, value: int) -> None:
    ctypes.c_int.from_address(address).value = value


def _pointer(address: int, value: int) -> None:
    ctypes.c_void_p.from_address(address).value = value
