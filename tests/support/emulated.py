"""Scheduled functions on the emulated GPU, with its race detector."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from daedal.compiler.codegen.gpu.emulated import emulated_text
from daedal.compiler.codegen.gpu.kernel import kernel_text
from daedal.compiler.codegen.gpu.kernel_text import KernelText
from daedal.compiler.tir.dtype import numpy_dtype
from daedal.compiler.tir.stmt import PrimFunc
from daedal.native.cache import ObjectCache
from daedal.native.codegen import compile_text
from daedal.runtime.gpu_device import kernel_arguments
from daedal.sim.gpu.banks import Place
from daedal.sim.gpu.emulator import EmulatedGpu

__all__ = ["bank_conflicts_of", "emulated", "launched"]

SYMBOL = "kernel"
MOST_ACCESSES = 1 << 21
"""Of shared memory, in a launch."""


@lru_cache(maxsize=8)
def _object(text: str) -> bytes:
    return ObjectCache().get(text, lambda: compile_text(text))


def launched(
    text: KernelText, func: PrimFunc, inputs: Mapping[str, npt.NDArray[Any]], seed: int | None
) -> dict[str, npt.NDArray[Any]]:
    """The outputs of `func`, whose checked kernel is `text`, from undefined memory."""
    device = EmulatedGpu(races=True, seed=seed)
    addresses = _allocated(device, func, inputs)
    loaded = device.load([_object(emulated_text(text))], [text.symbol])
    given = kernel_arguments(text.maps, addresses, device)
    device.launch(loaded, text.symbol, text.grid, text.block, text.shared_bytes, given)
    found = {}
    for buffer, address in zip(func.params, addresses, strict=True):
        if buffer.name not in inputs:
            kind = numpy_dtype(buffer.dtype)
            data = device.read(address, int(np.prod(buffer.shape)) * kind.itemsize)
            found[buffer.name] = np.frombuffer(data, kind).reshape(buffer.shape)
    return found


def bank_conflicts_of(func: PrimFunc, text: KernelText) -> dict[Place, int]:
    """Ways of the bank conflicts of a checked kernel, in one block of zeros."""
    device = EmulatedGpu(races=True, num_noted=MOST_ACCESSES)
    inputs = {item.name: np.zeros(item.shape, numpy_dtype(item.dtype)) for item in func.inputs}
    addresses = _allocated(device, func, inputs)
    loaded = device.load([_object(emulated_text(text))], [text.symbol])
    given = kernel_arguments(text.maps, addresses, device)
    device.launch(loaded, text.symbol, (1, 1, 1), text.block, text.shared_bytes, given)
    return device.conflicts()


def _allocated(
    device: EmulatedGpu, func: PrimFunc, inputs: Mapping[str, npt.NDArray[Any]]
) -> list[int]:
    """The addresses of all parameters, with the inputs."""
    addresses = []
    for buffer in func.params:
        size = int(np.prod(buffer.shape)) * numpy_dtype(buffer.dtype).itemsize
        addresses.append(device.allocate(size))
        if buffer.name in inputs:
            device.write(addresses[-1], np.ascontiguousarray(inputs[buffer.name]).tobytes())
    return addresses


def emulated(
    func: PrimFunc, inputs: Mapping[str, npt.NDArray[Any]], seed: int | None = None
) -> dict[str, npt.NDArray[Any]]:
    """The outputs of a scheduled function. Raises DeviceError where its threads race."""
    return launched(kernel_text(func, SYMBOL, checked=True), func, inputs, seed)
