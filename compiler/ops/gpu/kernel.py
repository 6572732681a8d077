"""`gpu_kernel_function`: the scheduled function of a kernel for a GPU."""

from daedal.compiler import te
from daedal.compiler.cpu.kernel import Kernel
from daedal.compiler.ops.gpu.schedule import schedule_map, schedule_reduction
from daedal.compiler.tir.stmt import PrimFunc

__all__ = ["gpu_kernel_function"]


def gpu_kernel_function(kernel: Kernel) -> PrimFunc:
    """The function of `kernel`, with all loops of the grid bound.

    Its parameters are the kernel's inputs, then its result.
    """
    func = te.create_prim_func(kernel.inputs, [kernel.result], "kernel")
    if kernel.reduction is None:
        func = schedule_map(func, kernel.result.name)
    else:
        func = schedule_reduction(func, kernel.reduction.name, kernel.result.name)
    return func if kernel.frame is None else kernel.frame.placed(func)
