"""`GpuDevice`: what runs kernels: a GPU behind its driver, or an emulator."""

from collections.abc import Sequence
from typing import Any, Protocol

from daedal.artifact.gpu_code import Extents

__all__ = ["Bytes", "GpuDevice", "LoadedKernels"]

Bytes = bytes | bytearray | memoryview
"""What can be written to a device."""
LoadedKernels = Any
"""What a device made of images; only it knows its form."""


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
        arguments: Sequence[int],
    ) -> None:
        """Run a kernel with these addresses as its arguments, after all launches before; it may
        still run when this returns."""
        ...

    def synchronize(self) -> None:
        """Wait until all launches have ended."""
        ...
