"""`CudaGpu`: a GPU of NVIDIA's behind the CUDA driver."""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from daedal.artifact.gpu_code import MAP_ALIGN, Extents, TensorMap
from daedal.common.errors import DeviceError, UserError
from daedal.runtime.devices.cuda.context import Context
from daedal.runtime.devices.cuda.driver import Driver, open_driver
from daedal.runtime.devices.cuda.functions import COMPUTE_MAJOR, COMPUTE_MINOR, MAX_SHARED_OPT_IN
from daedal.runtime.devices.cuda.kernels import CudaGraph, CudaKernels
from daedal.runtime.gpu_device import Bytes

__all__ = ["CudaGpu", "architectures_of"]

_GENERATIONS = (120, 110, 103, 100, 90, 89, 87, 86, 80)
"""Compute capabilities times ten. Kernels need at least the last one's instructions."""
_FIRST_WITH_OWN = 90
"""From here on, a GPU also has instructions that later ones do not (``sm_90a``)."""


def architectures_of(major: int, minor: int) -> tuple[str, ...]:
    """Architectures whose images a GPU of this compute capability runs, the best first.

    PTX for a GPU also runs on all later ones, a cubin on those with the same `major`.
    """
    own = 10 * major + minor
    alone = (f"sm_{own}a",) if own >= _FIRST_WITH_OWN else ()
    older = (f"sm_{number}" for number in _GENERATIONS if number < own)
    return (*alone, f"sm_{own}", *older)


class CudaGpu:
    """A `runtime.gpu_device.GpuDevice`: kernels run one after the other, on one stream.

    Parameters
    ----------
    number : which GPU, as the driver counts them.
    driver : by default that of this machine.

    Attributes
    ----------
    architectures : see `architectures_of`.

    Raises ToolError without a driver, DeviceError without a GPU, UserError for a number too many.
    """

    def __init__(self, *, number: int = 0, driver: Driver | None = None) -> None:
        self._driver = driver or open_driver()
        found = self._driver.num_devices()
        if found == 0:
            raise DeviceError("a machine must have a GPU that the CUDA driver finds; it finds none")
        if not 0 <= number < found:
            raise UserError(f"the number of a GPU must be below {found}, not {number}")
        device = self._driver.device(number)
        major = self._driver.attribute(device, COMPUTE_MAJOR)
        minor = self._driver.attribute(device, COMPUTE_MINOR)
        self.name = self._driver.device_name(device)
        self.architectures = architectures_of(major, minor)
        self._max_shared_bytes = self._driver.attribute(device, MAX_SHARED_OPT_IN)
        self._context = Context(self._driver, device)

    def load(self, images: Sequence[bytes], symbols: Sequence[str]) -> CudaKernels:
        """See `GpuDevice.load`; images are PTX or cubins."""
        return CudaKernels(self._context, images, symbols)

    def allocate(self, size_bytes: int) -> int:
        """See `GpuDevice.allocate`."""
        return self._context.enter().allocate(size_bytes)

    def free(self, address: int) -> None:
        """See `GpuDevice.free`."""
        self._context.give_back(lambda driver: driver.free(address))

    def write(self, address: int, data: Bytes) -> None:
        """See `GpuDevice.write`."""
        raw = bytes(data)
        if raw:
            self._context.enter().copy_to(address, raw, len(raw), self._context.stream)
            self.synchronize()

    def read(self, address: int, size_bytes: int) -> bytes:
        """See `GpuDevice.read`."""
        if not size_bytes:
            return b""
        found = ctypes.create_string_buffer(size_bytes)
        self._context.enter().copy_from(address, found, size_bytes, self._context.stream)
        self.synchronize()
        return found.raw

    def launch(
        self,
        loaded: CudaKernels,
        symbol: str,
        grid: Extents,
        block: Extents,
        shared_bytes: int,
        arguments: Sequence[int | bytes],
    ) -> None:
        """See `GpuDevice.launch`."""
        if shared_bytes > self._max_shared_bytes:
            raise UserError(
                f"a block on {self.name} must have at most {self._max_shared_bytes} bytes of "
                f"shared memory, not {shared_bytes} ({symbol!r}); compile the model for this GPU"
            )
        values = [_value(item) for item in arguments]
        given = (ctypes.c_void_p * len(arguments))(*(place for _, place in values))
        driver, function = self._context.enter(), loaded.function(symbol, shared_bytes)
        driver.launch(function, (*grid, *block), shared_bytes, self._context.stream, given)

    def tensor_map(self, item: TensorMap, address: int) -> bytes:
        """See `GpuDevice.tensor_map`. Raises ToolError where the driver is too old."""
        return self._context.enter().tensor_map(item, address)

    def synchronize(self) -> None:
        """See `GpuDevice.synchronize`."""
        self._context.enter().wait_for_stream(self._context.stream)

    def capture(self, work: Callable[[], None]) -> CudaGraph:
        """The launches of `work`, which are not run, as a graph.

        Raises DeviceError where it does more than launch.
        """
        self._context.begin_capture()
        try:
            work()
        except BaseException:
            self._context.end_capture(drop=True)
            raise
        return CudaGraph(self._context, self._context.end_capture())

    def replay(self, graph: CudaGraph) -> None:
        """Run the launches of a graph, after all launches before; see `GpuDevice.launch`."""
        self._context.enter().launch_graph(graph.handle, self._context.stream)

    def seconds(self, work: Callable[[], None]) -> float:
        """The time that the GPU needs for the launches of `work`."""
        driver, stream = self._context.enter(), self._context.stream
        first, last = driver.create_event(), driver.create_event()
        try:
            driver.record(first, stream)
            work()
            driver.record(last, stream)
            driver.wait_for_event(last)
            return driver.seconds_between(first, last)
        finally:
            driver.destroy_event(first)
            driver.destroy_event(last)


def _value(argument: int | bytes) -> tuple[Any, int]:
    """Memory that holds an argument, and where it begins there."""
    if isinstance(argument, int):
        number = ctypes.c_uint64(argument)
        return number, ctypes.addressof(number)
    held = ctypes.create_string_buffer(len(argument) + MAP_ALIGN)
    place = ctypes.addressof(held)
    place += -place % MAP_ALIGN
    ctypes.memmove(place, argument, len(argument))
    return held, place
