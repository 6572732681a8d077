"""SPIR-V modules on an OpenCL runtime of this machine, such as Intel's for processors.

Source: Khronos, The OpenCL API 3.0, ``CL/cl.h``.
"""

import ctypes
import ctypes.util
import sys
from collections.abc import Sequence
from ctypes import byref, c_char_p, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from daedal.artifact.gpu_code import Extents

__all__ = ["OpenCl", "find_opencl"]

ALL_DEVICES, DEVICE_IL_VERSION, BUILD_LOG = 0xFFFFFFFF, 0x105B, 0x1183
READ_WRITE, COPY_HOST = 1 << 0, 1 << 5
_HANDLES = ("clCreateContext", "clCreateCommandQueue", "clCreateProgramWithIL", "clCreateKernel",
            "clCreateBuffer")  # fmt: skip


@lru_cache(maxsize=1)
def find_opencl() -> "OpenCl | None":
    """The first device that takes SPIR-V; None where there is none."""
    own = Path(sys.prefix) / "lib" / "libintelocl.so"  # of the wheel intel-opencl-rt
    for name in (str(own) if own.is_file() else None, ctypes.util.find_library("OpenCL")):
        if name is None:
            continue
        try:
            return OpenCl(ctypes.CDLL(name))
        except (OSError, AttributeError, LookupError):
            continue
    return None


class OpenCl:
    """A device, with a queue of its own. Raises LookupError where none takes SPIR-V."""

    def __init__(self, library: Any) -> None:
        self._library = library
        for name in _HANDLES:
            getattr(library, name).restype = c_void_p
        self._device = self._found_device()
        error, device = c_int32(), c_void_p(self._device)
        self._context = c_void_p(
            library.clCreateContext(None, 1, byref(device), None, None, byref(error))
        )
        self._check(error, "a context")
        self._queue = c_void_p(
            library.clCreateCommandQueue(self._context, device, c_uint64(0), byref(error))
        )
        self._check(error, "a queue")

    def launch(
        self,
        module: bytes,
        symbol: str,
        grid: Extents,
        block: Extents,
        arrays: Sequence[npt.NDArray[Any]],
    ) -> list[npt.NDArray[Any]]:
        """The arguments of a kernel after it has run with copies of `arrays`."""
        library, error, device = self._library, c_int32(), c_void_p(self._device)
        program = c_void_p(
            library.clCreateProgramWithIL(
                self._context, c_char_p(module), c_size_t(len(module)), byref(error)
            )
        )
        self._check(error, "a program")
        if library.clBuildProgram(program, 1, byref(device), None, None, None):
            log = ctypes.create_string_buffer(1 << 14)
            library.clGetProgramBuildInfo(program, device, BUILD_LOG, c_size_t(len(log)), log, None)
            raise AssertionError(log.value.decode(errors="replace"))
        kernel = c_void_p(library.clCreateKernel(program, symbol.encode(), byref(error)))
        self._check(error, "a kernel")
        buffers = []
        for number, array in enumerate(arrays):
            data = array.tobytes()
            flags = c_uint64(READ_WRITE | COPY_HOST)
            buffers.append(
                c_void_p(
                    library.clCreateBuffer(
                        self._context, flags, c_size_t(len(data)), c_char_p(data), byref(error)
                    )
                )
            )
            self._check(error, "a buffer")
            size = c_size_t(ctypes.sizeof(c_void_p))
            self._done(library.clSetKernelArg(kernel, number, size, byref(buffers[-1])), "argument")
        threads = (c_size_t * 3)(*(a * b for a, b in zip(grid, block, strict=True)))
        local = (c_size_t * 3)(*block)
        status = library.clEnqueueNDRangeKernel(
            self._queue, kernel, 3, None, threads, local, 0, None, None
        )
        self._done(status, "launch")
        results = [np.empty_like(array) for array in arrays]
        for buffer, result in zip(buffers, results, strict=True):
            place = c_void_p(result.ctypes.data)
            status = library.clEnqueueReadBuffer(
                self._queue, buffer, 1, c_size_t(0), c_size_t(result.nbytes), place, 0, None, None
            )
            self._done(status, "copy")
            library.clReleaseMemObject(buffer)
        library.clReleaseKernel(kernel)
        library.clReleaseProgram(program)
        return results

    def _found_device(self) -> int:
        """A device with an intermediate language."""
        library, platforms, devices = self._library, (c_void_p * 8)(), (c_void_p * 8)()
        count, found = c_uint32(), c_uint32()
        if library.clGetPlatformIDs(8, platforms, byref(count)):
            raise LookupError("no platform")
        for platform in platforms[: count.value]:
            if library.clGetDeviceIDs(
                c_void_p(platform), c_uint64(ALL_DEVICES), 8, devices, byref(found)
            ):
                continue
            for device in devices[: found.value]:
                text = ctypes.create_string_buffer(256)
                status = library.clGetDeviceInfo(
                    c_void_p(device), DEVICE_IL_VERSION, c_size_t(len(text)), text, None
                )
                if status == 0 and b"SPIR-V" in text.value:
                    return int(device)
        raise LookupError("no device takes SPIR-V")

    def _check(self, error: c_int32, what: str) -> None:
        self._done(error.value, what)

    def _done(self, status: int, what: str) -> None:
        assert status == 0, f"OpenCL's {what} failed with status {status}"
