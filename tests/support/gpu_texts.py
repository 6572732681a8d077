"""The kernels of `gpu_formulas`, scheduled and written once in a process for many tests."""

from functools import cache

from daedal.compiler.codegen.gpu.kernel import kernel_text
from daedal.compiler.codegen.gpu.kernel_text import KernelText
from daedal.compiler.ops.gpu.kernel import gpu_kernel_function
from daedal.compiler.tir.stmt import PrimFunc
from tests.support.gpu_formulas import KERNELS

__all__ = ["function_of", "text_of"]


@cache
def function_of(name: str, *, has_warps: bool = True) -> PrimFunc:
    """The scheduled function of a kernel."""
    return gpu_kernel_function(KERNELS[name](), has_warps=has_warps)


@cache
def text_of(name: str, *, has_warps: bool = True, checked: bool = False) -> KernelText:
    """Its text, with the symbol ``k``."""
    return kernel_text(function_of(name, has_warps=has_warps), "k", checked=checked)
