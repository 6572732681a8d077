"""`GpuStopwatch`: runs kernels on a GPU and times them by the GPU's own clock."""

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from daedal.artifact.gpu_code import GpuKernel
from daedal.common.errors import DaedalError, first_line
from daedal.runtime.gpu_device import GpuDevice, kernel_arguments
from daedal.tuning.kernel_clock import MOST_CALLS, ROUND_NANOSECONDS, ROUNDS, operand
from daedal.tuning.kernel_code import KernelInput
from daedal.tuning.runner import Failure, Result

__all__ = ["ClockedGpu", "GpuKernelCode", "GpuStopwatch"]

Array = npt.NDArray[Any]


class ClockedGpu(GpuDevice, Protocol):
    """A GPU that tells how long launches take."""

    def seconds(self, work: Callable[[], None]) -> float:
        """The time that the GPU needs for the launches of `work`."""
        ...


@dataclass(frozen=True)
class GpuKernelCode:
    """A kernel, the image that a device loads, and what it reads and writes."""

    kernel: GpuKernel
    image: bytes
    inputs: tuple[KernelInput, ...]
    dtype: str
    shape: tuple[int, ...]


class GpuStopwatch:
    """Runs kernels on `device`, with operands that kernels share; memory is given back with this
    object."""

    def __init__(self, device: ClockedGpu) -> None:
        self._device = device
        self._addresses: dict[object, int] = {}
        weakref.finalize(self, _free, device, self._addresses).atexit = False

    def result(self, code: GpuKernelCode) -> Array | Result:
        """See `Stopwatch`."""
        try:
            self._loaded(code)()
            kind = np.dtype(code.dtype)
            size = int(np.prod(code.shape)) * kind.itemsize
            data = self._device.read(self._result(code), size)
            return np.frombuffer(bytearray(data), kind).reshape(code.shape)
        except DaedalError as error:
            return Result.failed(Failure.CRASH, first_line(error))

    def times(self, codes: Sequence[GpuKernelCode]) -> list[list[int]] | Result:
        """See `Stopwatch`: launches one after the other, between two events of the GPU."""
        try:
            launches = [self._loaded(code) for code in codes]
            counts = [self._count(launch) for launch in launches]
            found: list[list[int]] = [[] for _ in launches]
            for number in range(ROUNDS):
                order = range(len(launches))
                for at in order if number % 2 == 0 else reversed(order):
                    taken = self._nanoseconds(launches[at], counts[at])
                    found[at].append(max(round(taken / counts[at]), 1))
            return found
        except DaedalError as error:
            return Result.failed(Failure.CRASH, first_line(error))

    def _loaded(self, code: GpuKernelCode) -> Callable[[], None]:
        """What launches a kernel once."""
        kernel = code.kernel
        loaded = self._device.load([code.image], [kernel.symbol])
        addresses = [self._input(*item) for item in enumerate(code.inputs)]
        addresses.append(self._result(code))
        arguments = kernel_arguments(kernel.maps, addresses, self._device)

        def launch() -> None:
            self._device.launch(
                loaded, kernel.symbol, kernel.grid, kernel.block, kernel.shared_bytes, arguments
            )

        return launch

    def _count(self, launch: Callable[[], None]) -> int:
        """Launches of one round."""
        launch()  # loads the code
        taken = max(self._nanoseconds(launch, 1), 1.0)
        return min(max(int(ROUND_NANOSECONDS / taken), 1), MOST_CALLS)

    def _nanoseconds(self, launch: Callable[[], None], count: int) -> float:
        def work() -> None:
            for _ in range(count):
                launch()

        return self._device.seconds(work) * 1e9

    def _input(self, number: int, item: KernelInput) -> int:
        """The address of an operand."""
        key = number, item
        if key not in self._addresses:
            values = operand(number, item)
            self._addresses[key] = self._device.allocate(max(values.nbytes, 1))
            self._device.write(self._addresses[key], values.tobytes())
        return self._addresses[key]

    def _result(self, code: GpuKernelCode) -> int:
        """The address of a result, which is 0 at first."""
        key = code.dtype, code.shape
        if key not in self._addresses:
            data = bytes(int(np.prod(code.shape)) * np.dtype(code.dtype).itemsize)
            self._addresses[key] = self._device.allocate(max(len(data), 1))
            self._device.write(self._addresses[key], data)
        return self._addresses[key]


def _free(device: GpuDevice, addresses: dict[object, int]) -> None:
    for address in addresses.values():
        device.free(address)
