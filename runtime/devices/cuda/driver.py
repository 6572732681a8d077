"""`Driver`: the functions of the CUDA driver, each status of which is checked."""

import ctypes
from collections.abc import Sequence
from ctypes import byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

from daedal.artifact.gpu_code import CORE_BYTES, MAP_ALIGN, MAP_BYTES, TensorMap
from daedal.common.errors import DeviceError, ToolError, first_line
from daedal.runtime.devices.cuda.functions import (
    CAPTURE_THREAD_LOCAL,
    ERROR_LOG,
    ERROR_LOG_BYTES,
    FUNCTIONS,
    MAX_DYNAMIC_SHARED,
    NEWER_FUNCTIONS,
    NON_BLOCKING,
)
from daedal.runtime.devices.cuda.status import LOST, SUCCESS, status_text

__all__ = ["HOW_TO_GET", "Driver", "open_driver"]

HOW_TO_GET = "install NVIDIA's driver for the GPU, 470 or newer; in containers, pass the GPU on"

_LIBRARIES = ("libcuda.so.1", "nvcuda.dll")
_LOG_BYTES = 8192
_NAME_BYTES = 256


def open_driver(libraries: Sequence[str] = _LIBRARIES) -> "Driver":
    """The driver of this machine. Raises ToolError where it has none, or too old a one, and
    DeviceError where it has no GPU."""
    for name in libraries:
        try:
            return Driver(ctypes.CDLL(name))
        except OSError:
            continue
    raise ToolError(f"GPUs need the CUDA driver (libcuda), which is missing; {HOW_TO_GET}")


_MAP_TYPES = {"int8": 0, "float16": 6, "bfloat16": 9}
_SWIZZLE_128, _PROMOTE_256 = 3, 3
"""Sources: CUDA Driver API 13.0, ``CUtensorMapDataType``, ``CUtensorMapSwizzle``,
``CUtensorMapL2promotion``."""


class Driver:
    """The driver behind its library, or an object with the same functions.

    Methods raise DeviceError for any status but success. Handles are numbers.

    Attributes
    ----------
    is_lost : whether a kernel has failed so that all further calls do.
    """

    def __init__(self, library: Any) -> None:
        self.is_lost = False
        self._functions = {}
        for name, kinds in FUNCTIONS.items():
            try:
                function = getattr(library, name)
            except AttributeError as error:
                raise ToolError(
                    f"the CUDA driver must have the function {name}, and it has not; {HOW_TO_GET}"
                ) from error
            function.argtypes, function.restype = kinds, c_int
            self._functions[name] = function
        for name, kinds in NEWER_FUNCTIONS.items():
            function = getattr(library, name, None)
            if function is not None:
                function.argtypes, function.restype = kinds, c_int
                self._functions[name] = function
        self._call("cuInit", "starting the driver", 0)

    @property
    def version(self) -> tuple[int, int]:
        """The newest CUDA that it supports."""
        number = self._result(c_int, "cuDriverGetVersion", "asking for the driver's version")
        return int(number) // 1000, int(number) % 1000 // 10

    def num_devices(self) -> int:
        """GPUs that this process may use."""
        return int(self._result(c_int, "cuDeviceGetCount", "counting GPUs"))

    def device(self, number: int) -> int:
        """A GPU by number."""
        return int(self._result(c_int, "cuDeviceGet", f"opening GPU {number}", number))

    def device_name(self, device: int) -> str:
        """The name of a GPU."""
        text = ctypes.create_string_buffer(_NAME_BYTES)
        self._call("cuDeviceGetName", "asking for a GPU's name", text, _NAME_BYTES, device)
        return text.value.decode("ascii", "replace")

    def attribute(self, device: int, attribute: int) -> int:
        """A property of a GPU (`functions`)."""
        what = "asking for a GPU's properties"
        return int(self._result(c_int, "cuDeviceGetAttribute", what, attribute, device))

    def memory_bytes(self, device: int) -> int:
        """All memory of a GPU."""
        what = "asking for a GPU's memory"
        return int(self._result(c_size_t, "cuDeviceTotalMem_v2", what, device))

    def retain_context(self, device: int) -> int:
        """The context that all users of a GPU in this process share."""
        what = "opening a GPU"
        return int(self._result(c_void_p, "cuDevicePrimaryCtxRetain", what, device))

    def release_context(self, device: int) -> None:
        """End one use of the shared context."""
        self._call("cuDevicePrimaryCtxRelease_v2", "closing a GPU", device)

    def enter_context(self, context: int) -> None:
        """Let this thread use a context."""
        self._call("cuCtxSetCurrent", "choosing a GPU", context)

    def load_module(self, image: bytes) -> int:
        """Load PTX or a cubin. What the driver's compiler says becomes part of the error."""
        module = c_void_p()
        log = ctypes.create_string_buffer(_LOG_BYTES)
        options = (c_int * 2)(ERROR_LOG, ERROR_LOG_BYTES)
        values = (c_void_p * 2)(ctypes.addressof(log), _LOG_BYTES)
        function = self._functions["cuModuleLoadDataEx"]
        # PTX must end with a zero, as the memory of Python's bytes does.
        status = function(byref(module), image, 2, options, values)
        said = first_line(ValueError(log.value.decode("ascii", "replace").strip() or "no message"))
        self._check(status, f"loading kernels (the driver says: {said})")
        return int(module.value or 0)

    def unload_module(self, module: int) -> None:
        """Give a module back."""
        self._call("cuModuleUnload", "unloading kernels", module)

    def function(self, module: int, symbol: str) -> int:
        """A kernel of a module."""
        name = symbol.encode("ascii")
        what = f"finding kernel {symbol!r}"
        return int(self._result(c_void_p, "cuModuleGetFunction", what, module, name))

    def allow_shared(self, function: int, size_bytes: int) -> None:
        """Let a kernel's blocks have that much shared memory."""
        what = f"giving a block {size_bytes} bytes of shared memory"
        self._call("cuFuncSetAttribute", what, function, MAX_DYNAMIC_SHARED, size_bytes)

    def allocate(self, size_bytes: int) -> int:
        """The address of new memory."""
        what = f"allocating {size_bytes} bytes"
        return int(self._result(c_uint64, "cuMemAlloc_v2", what, size_bytes))

    def free(self, address: int) -> None:
        """Give memory back."""
        self._call("cuMemFree_v2", "freeing memory", address)

    def copy_to(self, address: int, data: Any, size_bytes: int, stream: int) -> None:
        """Copy from the host, in order; `data` must live until the stream has been waited for."""
        what = f"copying {size_bytes} bytes to its memory"
        self._call("cuMemcpyHtoDAsync_v2", what, address, data, size_bytes, stream)

    def copy_from(self, address: int, data: Any, size_bytes: int, stream: int) -> None:
        """Copy to the host, in order; `data` must live until the stream has been waited for."""
        what = f"copying {size_bytes} bytes from its memory"
        self._call("cuMemcpyDtoHAsync_v2", what, data, address, size_bytes, stream)

    def create_stream(self) -> int:
        """What keeps work in order."""
        what = "making a stream"
        return int(self._result(c_void_p, "cuStreamCreate", what, NON_BLOCKING))

    def destroy_stream(self, stream: int) -> None:
        """Give a stream back."""
        self._call("cuStreamDestroy_v2", "ending a stream", stream)

    def wait_for_stream(self, stream: int) -> None:
        """Wait until all work in it is done."""
        self._call("cuStreamSynchronize", "waiting for kernels", stream)

    def launch(
        self, function: int, extents: Sequence[int], shared_bytes: int, stream: int, given: Any
    ) -> None:
        """Run a kernel: blocks, and threads of one, along x, y and z; `given` points to pointers
        to its arguments."""
        numbers = (*extents, shared_bytes)
        self._call("cuLaunchKernel", "launching a kernel", function, *numbers, stream, given, None)

    def tensor_map(self, item: TensorMap, address: int) -> bytes:
        """A map of the tensor at an address. Raises ToolError where the driver is too old."""
        name = "cuTensorMapEncodeTiled"
        if name not in self._functions:
            raise ToolError(
                "kernels for sm_90a need NVIDIA's driver 525 or newer, and this one has not the "
                f"function {name}; install a newer one, or compile the model for sm_90"
            )
        rank, size = len(item.shape), CORE_BYTES[item.dtype]
        strides = [size]
        for extent in item.shape[:0:-1]:
            strides.append(strides[-1] * extent)
        raw = ctypes.create_string_buffer(MAP_BYTES + MAP_ALIGN)
        first = ctypes.addressof(raw)
        first += -first % MAP_ALIGN
        self._call(
            name,
            f"making a map of a tensor of {item.shape}",
            first,
            _MAP_TYPES[item.dtype],
            rank,
            address,
            (c_uint64 * rank)(*item.shape[::-1]),
            (c_uint64 * rank)(*strides[1:]),
            (c_uint * rank)(*item.box[::-1]),
            (c_uint * rank)(*[1] * rank),
            0,
            _SWIZZLE_128,
            _PROMOTE_256,
            0,
        )
        return ctypes.string_at(first, MAP_BYTES)

    def begin_capture(self, stream: int) -> None:
        """Keep launches of this stream for a graph instead of running them."""
        what = "capturing launches"
        self._call("cuStreamBeginCapture_v2", what, stream, CAPTURE_THREAD_LOCAL)

    def end_capture(self, stream: int) -> int:
        """What was captured, as something to launch at once."""
        what = "capturing launches"
        graph = c_void_p()
        self._call("cuStreamEndCapture", what, stream, byref(graph))
        try:
            return int(self._result(c_void_p, "cuGraphInstantiateWithFlags", what, graph, 0))
        finally:
            self._call("cuGraphDestroy", what, graph)

    def drop_capture(self, stream: int) -> None:
        """End a capture that failed; what it was told is forgotten."""
        graph = c_void_p()
        self._functions["cuStreamEndCapture"](stream, byref(graph))
        if graph.value:
            self._call("cuGraphDestroy", "ending a graph", graph)

    def launch_graph(self, graph: int, stream: int) -> None:
        """Run all its launches."""
        self._call("cuGraphLaunch", "replaying launches", graph, stream)

    def destroy_graph(self, graph: int) -> None:
        """Give a graph back."""
        self._call("cuGraphExecDestroy", "ending a graph", graph)

    def create_event(self) -> int:
        """A point in a stream, with its time."""
        return int(self._result(c_void_p, "cuEventCreate", "making an event", 0))

    def record(self, event: int, stream: int) -> None:
        """Put an event behind all work so far."""
        self._call("cuEventRecord", "recording an event", event, stream)

    def wait_for_event(self, event: int) -> None:
        """Wait until the work before it is done."""
        self._call("cuEventSynchronize", "waiting for kernels", event)

    def seconds_between(self, first: int, last: int) -> float:
        """The time between two events that have happened."""
        milliseconds = self._result(c_float, "cuEventElapsedTime", "reading a time", first, last)
        return float(milliseconds) * 1e-3

    def destroy_event(self, event: int) -> None:
        """Give an event back."""
        self._call("cuEventDestroy_v2", "ending an event", event)

    def _result(self, kind: Any, name: str, what: str, *arguments: Any) -> Any:
        """What a function writes where its first argument points."""
        result = kind()
        self._call(name, what, byref(result), *arguments)
        return result.value or 0

    def _call(self, name: str, what: str, *arguments: Any) -> None:
        self._check(self._functions[name](*arguments), what)

    def _check(self, status: int, what: str) -> None:
        self.is_lost |= status in LOST
        if status != SUCCESS:
            text = status_text(status, self._status_name(status))
            raise DeviceError(f"{what} must succeed on the GPU, and it does not: {text}")

    def _status_name(self, status: int) -> str:
        name = c_char_p()
        known = self._functions["cuGetErrorName"](status, byref(name)) == SUCCESS
        return name.value.decode("ascii", "replace") if known and name.value else f"error {status}"
