"""Kernels of GPUs written by hand in LLVM's text, compiled for the emulator and run there."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from daedal.compiler.codegen.gpu.emulated import emulated_object
from daedal.compiler.codegen.gpu.kernel_text import KernelText
from daedal.native.cpu import host_cpu
from daedal.sim.gpu.emulator import EmulatedGpu

__all__ = ["DECLARATIONS", "Kernel", "run"]

Array = npt.NDArray[Any]
SYMBOL = "kernel"

DECLARATIONS = """
declare i64 @gpu.thread.x(ptr)
declare i64 @gpu.thread.y(ptr)
declare i64 @gpu.thread.z(ptr)
declare i64 @gpu.block.x(ptr)
declare i64 @gpu.block.y(ptr)
declare i64 @gpu.block.z(ptr)
declare void @gpu.barrier(ptr, i32)
declare ptr addrspace(3) @gpu.shared(ptr)
declare void @gpu.read(ptr, ptr, i32, i32)
declare void @gpu.write(ptr, ptr, i32, i32)
declare void @gpu.copy(ptr, ptr addrspace(3), ptr, i32, i32)
declare void @gpu.commit(ptr)
declare void @gpu.wait(ptr, i32)
declare float @gpu.shuffle.xor.f32(ptr, float, i32)
declare {i32, i32} @gpu.ldmatrix.x2(ptr, ptr addrspace(3))
declare {i32, i32} @gpu.ldmatrix.x2.trans(ptr, ptr addrspace(3))
declare {i32, i32, i32, i32} @gpu.ldmatrix.x4(ptr, ptr addrspace(3))
declare {i32, i32, i32, i32} @gpu.ldmatrix.x4.trans(ptr, ptr addrspace(3))
declare {float, float, float, float} @gpu.mma.m16n8k16.f16(
    ptr, i32, i32, i32, i32, i32, i32, float, float, float, float)
declare {float, float, float, float} @gpu.mma.m16n8k16.bf16(
    ptr, i32, i32, i32, i32, i32, i32, float, float, float, float)
declare {i32, i32, i32, i32} @gpu.mma.m16n8k32.s8(
    ptr, i32, i32, i32, i32, i32, i32, i32, i32, i32, i32)
"""


@dataclass(frozen=True)
class Kernel:
    """The lines of a body with `parameters` pointers, ``%a0`` and so on.

    Attributes
    ----------
    more : definitions and declarations besides.
    """

    body: str
    parameters: int
    block: tuple[int, int, int] = (32, 1, 1)
    grid: tuple[int, int, int] = (1, 1, 1)
    shared_bytes: int = 0
    more: str = ""

    def text(self) -> KernelText:
        """As code generation gives it."""
        parameters = "".join(f", ptr noalias %a{number}" for number in range(self.parameters))
        text = (
            f"{DECLARATIONS}{self.more}\n"
            f"define internal void @body(ptr %gpu{parameters}) alwaysinline {{\nentry:\n"
            f"{self.body}\n  ret void\n}}\n"
        )
        extents = (self.grid, self.block, self.shared_bytes)
        return KernelText(SYMBOL, text, *extents, self.parameters)


@lru_cache(maxsize=64)
def _compiled(kernel: Kernel) -> bytes:
    return emulated_object(kernel.text(), host_cpu())


def run(gpu: EmulatedGpu, kernel: Kernel, arrays: Sequence[Array]) -> list[Array]:
    """The arrays after a launch with a copy of each as an argument."""
    loaded = gpu.load([_compiled(kernel)], [SYMBOL])
    addresses = [gpu.allocate(array.nbytes) for array in arrays]
    for address, array in zip(addresses, arrays, strict=True):
        gpu.write(address, array.tobytes())
    gpu.launch(loaded, SYMBOL, kernel.grid, kernel.block, kernel.shared_bytes, addresses)
    gpu.synchronize()
    results = [
        np.frombuffer(gpu.read(address, array.nbytes), array.dtype).reshape(array.shape)
        for address, array in zip(addresses, arrays, strict=True)
    ]
    for address in addresses:
        gpu.free(address)
    return results
