"""`gpu_images`: what the devices of an architecture load: an image for each kernel."""

from collections.abc import Sequence
from functools import partial

from daedal.artifact.gpu_code import CUBIN, EMULATED, SPIRV
from daedal.compiler.codegen.gpu.emulated import emulated_text
from daedal.compiler.codegen.gpu.kernel_text import KernelText
from daedal.compiler.codegen.gpu.nvptx import ptx_module, ptx_text
from daedal.compiler.codegen.gpu.ptxas import assembled, ptxas_version
from daedal.compiler.codegen.gpu.spirv import spirv_module, spirv_text
from daedal.native.cache import ObjectCache
from daedal.native.codegen import compile_text
from daedal.native.levels import level_cpu

__all__ = ["check_kernel", "gpu_images"]


def gpu_images(
    kernels: Sequence[KernelText], architecture: str, cache: ObjectCache
) -> tuple[bytes, ...]:
    """Object code of kernels for the emulator, PTX, cubins or SPIR-V for GPUs, in order; kept in
    `cache`.

    Raises UnsupportedError for a kernel that has no code for the architecture, and ToolError where
    a cubin is asked for and ptxas makes none.
    """
    image = _cubin if architecture.endswith(CUBIN) else _ptx
    if architecture.startswith(EMULATED):
        image = _object
    elif architecture == SPIRV:
        image = _spirv
    return tuple(image(kernel, architecture, cache) for kernel in kernels)


def check_kernel(kernel: KernelText, architecture: str) -> None:
    """Raise UnsupportedError for a kernel that has no code for the architecture."""
    if architecture == SPIRV:
        spirv_text(kernel)
    elif not architecture.startswith(EMULATED):
        ptx_module(kernel, architecture)


def _object(kernel: KernelText, architecture: str, cache: ObjectCache) -> bytes:
    text, level = emulated_text(kernel), architecture.removeprefix(EMULATED)
    return cache.get(f"{architecture}\n{text}", partial(compile_text, text, level_cpu(level)))


def _ptx(kernel: KernelText, architecture: str, cache: ObjectCache) -> bytes:
    sources = f"{architecture}\n{ptx_module(kernel, architecture)}"
    return cache.get(sources, lambda: ptx_text(kernel, architecture).encode("ascii"))


def _cubin(kernel: KernelText, architecture: str, cache: ObjectCache) -> bytes:
    own = architecture.removesuffix(CUBIN)
    sources = f"{architecture} {ptxas_version()}\n{ptx_module(kernel, own)}"
    return cache.get(sources, lambda: assembled(_ptx(kernel, own, cache).decode("ascii"), own).data)


def _spirv(kernel: KernelText, architecture: str, cache: ObjectCache) -> bytes:
    return cache.get(f"{architecture}\n{spirv_text(kernel)}", lambda: spirv_module(kernel))
