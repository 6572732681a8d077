"""`GpuCode` without a compiler for GPUs, and a device that runs it: functions of this processor
under the names of kernels, called once for all iterations."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from daedal.artifact.gpu_code import GpuCode, GpuKernel, TensorMap
from daedal.artifact.host_code import HostCode
from daedal.common.errors import DeviceError
from daedal.native.codegen import load_objects
from daedal.native.levels import host_level

__all__ = ["FakeGpu", "as_gpu_code", "product_kernels", "ptx_of"]

_Function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


def ptx_of(*symbols: str) -> bytes:
    """PTX that defines kernels that do nothing."""
    kernels = [f".visible .entry {name}()\n{{\n\tret;\n}}\n" for name in symbols]
    head = ".version 8.0\n.target sm_80\n.address_size 64\n"
    return (head + "".join(kernels)).encode()


def product_kernels(code: GpuCode) -> list[GpuKernel]:
    """Those that sum products."""
    symbols = {call.symbol for call in code.host.calls if call.products}
    return [kernel for kernel in code.kernels if kernel.symbol in symbols]


def as_gpu_code(code: HostCode) -> GpuCode:
    """A kernel for every function, whose grid has its iterations; images for each level's emulator
    and for sm_80."""
    iterations = {call.symbol: call.iterations for call in code.calls}
    kernels = tuple(
        GpuKernel(name, (iterations[name], 1, 1), (32, 1, 1), 0) for name in sorted(iterations)
    )
    images = {f"emulated-{level}": files for level, files in code.objects.items()}
    ptx = (ptx_of(*(kernel.symbol for kernel in kernels)),)
    return GpuCode(replace(code, objects={}), kernels, {**images, "sm_80": ptx})


@dataclass
class FakeGpu:
    """A device that runs what `as_gpu_code` gives, and records what it is asked for.

    Attributes
    ----------
    launched : symbols, in order.
    held : size by address of what is allocated and not freed.
    """

    architectures: tuple[str, ...] = field(default_factory=lambda: (f"emulated-{host_level()}",))
    name: str = "fake"
    launched: list[str] = field(default_factory=list)
    held: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._blocks: dict[int, Any] = {}

    def load(self, images: Sequence[bytes], symbols: Sequence[str]) -> Any:
        return load_objects(images, symbols)

    def allocate(self, size_bytes: int) -> int:
        block = np.full(size_bytes + 256, 0xA5, np.uint8)
        address = int(block.ctypes.data) + -block.ctypes.data % 256
        self._blocks[address] = block
        self.held[address] = size_bytes
        return address

    def free(self, address: int) -> None:
        del self.held[address], self._blocks[address]

    def write(self, address: int, data: bytes | bytearray | memoryview) -> None:
        self._check(address, len(data))
        ctypes.memmove(address, bytes(data), len(data))

    def read(self, address: int, size_bytes: int) -> bytes:
        self._check(address, size_bytes)
        return ctypes.string_at(address, size_bytes)

    def launch(
        self,
        loaded: Any,
        symbol: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        arguments: Sequence[int],
    ) -> None:
        assert (block, shared_bytes) == ((32, 1, 1), 0)
        for address in arguments:
            self._check(address, 1)
        self.launched.append(symbol)
        addresses = (ctypes.c_void_p * len(arguments))(*arguments)
        _Function(loaded.addresses[symbol])(ctypes.addressof(addresses), 0, grid[0])

    def tensor_map(self, item: TensorMap, address: int) -> bytes:
        raise AssertionError(f"no kernel has a map: {item} at {address:#x}")

    def synchronize(self) -> None:
        pass

    def _check(self, address: int, size_bytes: int) -> None:
        for begin, size in self.held.items():
            if begin <= address and address + size_bytes <= begin + size:
                return
        raise DeviceError("an access must be inside what is allocated, and one is not")
