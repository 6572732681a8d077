"""`GpuDevice`: what runs kernels: a GPU behind its driver, or an emulator."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from daedal.artifact.gpu_code import Extents, TensorMap

__all__ = [
    "Bytes",
    "GpuDevice",
    "GraphDevice",
    "LaunchGraph",
    "LoadedKernels",
    "kernel_arguments",
]

Bytes = bytes | bytearray | memoryview
"""What can be written to a device."""
LoadedKernels = Any
"""What a device made of images; only it knows its form."""
LaunchGraph = Any
"""What a device made of launches; only it knows its form."""


class GpuDevice(Protocol):
    """A GPU with memory of its own.

    Attributes
    ----------
    name : for reports.
    architectures : those whose images it runs, the best first (`artifact.gpu_code`).

    All methods raise DeviceError where the device fails, and UserError for what it does not have.
    """

    @property
    def name(self) -> str: ...

    @property
    def architectures(self) -> tuple[str, ...]: ...

    def load(self, images: Sequence[bytes], symbols: Sequence[str]) -> LoadedKernels:
        """The kernels `symbols` of images of one of its architectures: one for each, or for all."""
        ...

    def allocate(self, size_bytes: int) -> int:
        """The address of new memory, a multiple of 256."""
        ...

    def free(self, address: int) -> None:
        """Give memory back."""
        ...

    def write(self, address: int, data: Bytes) -> None:
        """Copy bytes to its memory, after all launches before."""
        ...

    def read(self, address: int, size_bytes: int) -> bytes:
        """Copy bytes from its memory, after all launches before."""
        ...

    def launch(
        self,
        loaded: LoadedKernels,
        symbol: str,
        grid: Extents,
        block: Extents,
        shared_bytes: int,
        arguments: Sequence[int | bytes],
    ) -> None:
        """Run a kernel with these arguments, addresses and then maps, after all launches before; it
        may still run when this returns."""
        ...

    def tensor_map(self, item: TensorMap, address: int, /) -> bytes:
        """A map of the tensor at an address, as an argument of a kernel."""
        ...

    def synchronize(self) -> None:
        """Wait until all launches have ended."""
        ...


@runtime_checkable
class GraphDevice(Protocol):
    """A `GpuDevice` that runs launches which are always the same with less work on the host."""

    def capture(self, work: Callable[[], None], /) -> LaunchGraph:
        """The launches of `work`, which are not run."""
        ...

    def replay(self, graph: LaunchGraph, /) -> None:
        """Run the launches of a graph, after all launches before."""
        ...


def kernel_arguments(
    maps: Sequence[TensorMap], addresses: Sequence[int], device: GpuDevice
) -> list[int | bytes]:
    """What a kernel with some maps is launched with, on arguments at these addresses."""
    return [*addresses, *(device.tensor_map(item, addresses[item.argument]) for item in maps)]
