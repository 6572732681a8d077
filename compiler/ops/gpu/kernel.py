"""`gpu_kernel_function`: the scheduled function of a kernel for a GPU."""

from daedal.compiler import te
from daedal.compiler.cpu.kernel import Kernel
from daedal.compiler.ops.cpu.merge import merged
from daedal.compiler.ops.gpu.padded import padded, stored
from daedal.compiler.ops.gpu.schedule import (
    schedule_map,
    schedule_reduction,
    schedule_shared,
    schedule_tiles,
)
from daedal.compiler.ops.gpu.shared_sums import SharedSums, shared_sums
from daedal.compiler.ops.gpu.tensor_cores import choose_core_tiles, schedule_cores
from daedal.compiler.ops.gpu.tiles import choose_tiles, factors
from daedal.compiler.tir.expr import Reduce
from daedal.compiler.tir.stmt import PrimFunc

__all__ = ["gpu_kernel_function"]


def gpu_kernel_function(kernel: Kernel, *, has_warps: bool = True) -> PrimFunc:
    """The function of `kernel`, with all loops of the grid bound.

    Its parameters are the kernel's inputs, then its result.

    Parameters
    ----------
    has_warps : whether all GPUs that it is for have instructions of whole warps.
    """
    func = _scheduled(kernel, has_warps)
    return func if kernel.frame is None else kernel.frame.placed(func)


def _scheduled(kernel: Kernel, has_warps: bool) -> PrimFunc:
    if kernel.reduction is None:
        func = te.create_prim_func(kernel.inputs, [kernel.result], "kernel")
        return schedule_map(func, kernel.result.name)
    result, reduction = merged(kernel.result, kernel.reduction)
    assert reduction is not None
    formula = reduction.value
    assert isinstance(formula, Reduce)
    cores = tiles = None
    if formula.op == "sum" and has_warps:
        cores = choose_core_tiles(formula.value, reduction.axes, formula.axes)
    if cores is not None:
        tiles = cores.tiles
    elif formula.op == "sum":
        tiles = choose_tiles(formula.value, reduction.axes, formula.axes)
    if tiles is None:
        shared = shared_sums(result, reduction)
        if shared is not None:
            return _shared(kernel, shared)
        func = te.create_prim_func(kernel.inputs, [kernel.result], "kernel")
        return schedule_reduction(func, kernel.reduction.name, kernel.result.name)
    shape = result.shape
    result, reduction = padded(result, reduction, tiles)
    operands = factors(formula.value)
    assert operands is not None
    func = te.create_prim_func(kernel.inputs, [result], "kernel")
    names = [operand.buffer.name for operand in operands]
    if cores is not None:
        func = schedule_cores(func, reduction.name, result.name, names, cores)
    else:
        func = schedule_tiles(func, reduction.name, result.name, names, tiles)
    return stored(func, shape)


def _shared(kernel: Kernel, stages: SharedSums) -> PrimFunc:
    func = te.create_prim_func(kernel.inputs, [stages.result], "kernel")
    return schedule_shared(
        func,
        stages.parts.name,
        stages.sums.name,
        stages.reduction.name,
        stages.result.name,
        threads=stages.parts.shape[-1],
    )
