"""`GpuCode` without a compiler for GPUs: functions of a processor under the names of kernels."""

from dataclasses import replace

from daedal.artifact.gpu_code import GpuCode, GpuKernel
from daedal.artifact.host_code import HostCode

__all__ = ["as_gpu_code", "ptx_of"]


def ptx_of(*symbols: str) -> bytes:
    """PTX that defines kernels that do nothing."""
    kernels = [f".visible .entry {name}()\n{{\n\tret;\n}}\n" for name in symbols]
    head = ".version 8.0\n.target sm_80\n.address_size 64\n"
    return (head + "".join(kernels)).encode()


def as_gpu_code(code: HostCode) -> GpuCode:
    """A kernel for every function; images for each level's emulator and for sm_80."""
    symbols = sorted({call.symbol for call in code.calls})
    kernels = tuple(GpuKernel(name, (1, 1, 1), (32, 1, 1), 0) for name in symbols)
    images = {f"emulated-{level}": files for level, files in code.objects.items()}
    return GpuCode(replace(code, objects={}), kernels, {**images, "sm_80": (ptx_of(*symbols),)})
