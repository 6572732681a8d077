"""`FUNCTIONS`: the functions of the CUDA driver that are called, with the types of their arguments.

Names have the suffix that the header's macros add. Source: CUDA Driver API 13.0, ``cuda.h``; all
are in drivers from 11.4 on.
"""

from ctypes import c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

__all__ = [
    "CAPTURE_THREAD_LOCAL",
    "COMPUTE_MAJOR",
    "COMPUTE_MINOR",
    "ERROR_LOG",
    "ERROR_LOG_BYTES",
    "FUNCTIONS",
    "MAX_DYNAMIC_SHARED",
    "MAX_SHARED_OPT_IN",
    "MULTIPROCESSORS",
    "NEWER_FUNCTIONS",
    "NON_BLOCKING",
]

FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (c_void_p,),
    "cuGetErrorName": (c_int, c_void_p),
    "cuDeviceGetCount": (c_void_p,),
    "cuDeviceGet": (c_void_p, c_int),
    "cuDeviceGetName": (c_void_p, c_int, c_int),
    "cuDeviceGetAttribute": (c_void_p, c_int, c_int),
    "cuDeviceTotalMem_v2": (c_void_p, c_int),
    "cuDevicePrimaryCtxRetain": (c_void_p, c_int),
    "cuDevicePrimaryCtxRelease_v2": (c_int,),
    "cuCtxSetCurrent": (c_void_p,),
    "cuModuleLoadDataEx": (c_void_p, c_void_p, c_uint, c_void_p, c_void_p),
    "cuModuleUnload": (c_void_p,),
    "cuModuleGetFunction": (c_void_p, c_void_p, c_void_p),
    "cuFuncSetAttribute": (c_void_p, c_int, c_int),
    "cuMemAlloc_v2": (c_void_p, c_size_t),
    "cuMemFree_v2": (c_uint64,),
    "cuMemcpyHtoDAsync_v2": (c_uint64, c_void_p, c_size_t, c_void_p),
    "cuMemcpyDtoHAsync_v2": (c_void_p, c_uint64, c_size_t, c_void_p),
    "cuStreamCreate": (c_void_p, c_uint),
    "cuStreamDestroy_v2": (c_void_p,),
    "cuStreamSynchronize": (c_void_p,),
    "cuStreamBeginCapture_v2": (c_void_p, c_int),
    "cuStreamEndCapture": (c_void_p, c_void_p),
    "cuGraphInstantiateWithFlags": (c_void_p, c_void_p, c_uint64),
    "cuGraphLaunch": (c_void_p, c_void_p),
    "cuGraphDestroy": (c_void_p,),
    "cuGraphExecDestroy": (c_void_p,),
    "cuLaunchKernel": (c_void_p, *([c_uint] * 7), c_void_p, c_void_p, c_void_p),
    "cuEventCreate": (c_void_p, c_uint),
    "cuEventRecord": (c_void_p, c_void_p),
    "cuEventSynchronize": (c_void_p,),
    "cuEventElapsedTime": (c_void_p, c_void_p, c_void_p),
    "cuEventDestroy_v2": (c_void_p,),
}
"""Each returns a status; pointers to results come first."""

NEWER_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cuTensorMapEncodeTiled": (
        *(c_void_p, c_int, c_uint, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p),
        *(c_int, c_int, c_int, c_int),
    ),
}
"""In drivers from 12.0 on, and only needed for GPUs that older ones do not know."""

COMPUTE_MAJOR, COMPUTE_MINOR = 75, 76
MAX_SHARED_OPT_IN, MULTIPROCESSORS = 97, 16
"""Attributes of a device."""
MAX_DYNAMIC_SHARED = 8
"""An attribute of a function."""
ERROR_LOG, ERROR_LOG_BYTES = 5, 6
"""Options of `cuModuleLoadDataEx`."""
CAPTURE_THREAD_LOCAL = 1
NON_BLOCKING = 1
