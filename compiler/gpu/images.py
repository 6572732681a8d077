"""`gpu_images`: what the devices of an architecture load: an image for each kernel."""

from collections.abc import Sequence
from functools import partial

from daedal.artifact.gpu_code import EMULATED
from daedal.compiler.codegen.gpu.emulated import emulated_text
from daedal.compiler.codegen.gpu.kernel_text import KernelText
from daedal.native.cache import ObjectCache
from daedal.native.codegen import compile_text
from daedal.native.levels import level_cpu

__all__ = ["gpu_images"]


def gpu_images(
    kernels: Sequence[KernelText], architecture: str, cache: ObjectCache
) -> tuple[bytes, ...]:
    """Object code of kernels, in order; kept in `cache`."""
    level = architecture.removeprefix(EMULATED)
    texts = [emulated_text(kernel) for kernel in kernels]
    return tuple(
        cache.get(f"{architecture}\n{text}", partial(compile_text, text, level_cpu(level)))
        for text in texts
    )
