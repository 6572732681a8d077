"""`gpu_kernel_function`: the scheduled function of a kernel for a GPU."""

from collections.abc import Sequence

from daedal.common.errors import ScheduleError, UnsupportedError
from daedal.compiler import te
from daedal.compiler.cpu.kernel import Kernel
from daedal.compiler.ops.cpu.merge import merged
from daedal.compiler.ops.gpu.attention import attention_function
from daedal.compiler.ops.gpu.attention_space import GpuAttentionSpace, gpu_attention_space
from daedal.compiler.ops.gpu.attention_tiles import AttentionTiles, attention_tiles
from daedal.compiler.ops.gpu.core_choice import best_core_tiles
from daedal.compiler.ops.gpu.flat import flat_operands
from daedal.compiler.ops.gpu.padded import padded, stored
from daedal.compiler.ops.gpu.rows import row_function, row_tiles
from daedal.compiler.ops.gpu.schedule import (
    schedule_map,
    schedule_reduction,
    schedule_shared,
    schedule_tiles,
)
from daedal.compiler.ops.gpu.shared_sums import SharedSums, shared_sums
from daedal.compiler.ops.gpu.space import GpuCoreSpace, GpuTileSpace, gpu_core_space, gpu_tile_space
from daedal.compiler.ops.gpu.tensor_cores import CoreTiles, schedule_cores
from daedal.compiler.ops.gpu.tiles import GpuTiles, choose_tiles, factors
from daedal.compiler.ops.gpu.vectors import vector_lanes
from daedal.compiler.ops.space import Config
from daedal.compiler.tir.expr import Reduce
from daedal.compiler.tir.stmt import PrimFunc

__all__ = ["GpuSpace", "gpu_kernel_function", "gpu_kernel_space"]

GpuSpace = GpuTileSpace | GpuCoreSpace | GpuAttentionSpace
"""Of a kernel whose sums of products have tiles."""


def gpu_kernel_function(
    kernel: Kernel,
    *,
    has_warps: bool = True,
    has_groups: bool = False,
    config: Config | None = None,
) -> PrimFunc:
    """The function of `kernel`, with all loops of the grid bound.

    Its parameters are the kernel's inputs, then its result.

    Parameters
    ----------
    has_warps : whether all GPUs that it is for have instructions of whole warps, and choose one of
        two vectors by one condition: OpenCL has neither.
    has_groups : whether all of them have products of matrices of groups of four warps, too.
    config : of `gpu_kernel_space`; None: the one that the rules choose.

    Raises
    ------
    ScheduleError
        `config` is none of the kernel's space.
    """
    func = _scheduled(kernel, has_warps, has_groups, config)
    return func if kernel.frame is None else kernel.frame.placed(func)


def gpu_kernel_space(
    kernel: Kernel, *, has_warps: bool = True, has_groups: bool = False
) -> GpuSpace | None:
    """The schedules of a kernel; None where there is one only."""
    if kernel.reduction is None:
        return None
    if kernel.scores is not None:
        found = gpu_attention_space(kernel, has_warps=has_warps)
        return None if found is None or len(found) < 2 else found
    _, _, reduction = _merged(kernel)
    formula = reduction.value
    assert isinstance(formula, Reduce)
    if formula.op != "sum":
        return None
    space: GpuSpace | None = None
    if has_warps:
        space = gpu_core_space(reduction, has_groups=has_groups)
    space = space or gpu_tile_space(reduction)
    return None if space is None or len(space) < 2 else space


def _scheduled(
    kernel: Kernel, has_warps: bool, has_groups: bool, config: Config | None
) -> PrimFunc:
    chosen = None if config is None else _configured(kernel, has_warps, has_groups, config)
    if kernel.scores is not None:
        tiles = chosen or attention_tiles(kernel, has_warps=has_warps)
        if not isinstance(tiles, AttentionTiles):
            raise UnsupportedError("a kernel of attention must have tiles")
        return attention_function(kernel, tiles, has_vectors=has_warps)
    assert not isinstance(chosen, AttentionTiles)
    if kernel.stages:
        rows = row_tiles(kernel, has_vectors=has_warps)
        if rows is None:
            raise UnsupportedError("a kernel of rows must have tiles")
        return row_function(kernel, rows)
    if kernel.reduction is None:
        func = te.create_prim_func(kernel.inputs, [kernel.result], "kernel")
        lanes = vector_lanes(kernel.result) if has_warps else 1
        return schedule_map(func, kernel.result.name, lanes)
    inputs, result, reduction = _merged(kernel)
    formula = reduction.value
    assert isinstance(formula, Reduce)
    if chosen is None and formula.op == "sum":
        given = formula.value, reduction.axes, formula.axes
        chosen = best_core_tiles(*given, has_groups=has_groups) if has_warps else None
        chosen = chosen or choose_tiles(*given)
    if chosen is None:
        shared = shared_sums(result, reduction)
        if shared is not None:
            return _shared(inputs, shared)
        func = te.create_prim_func(kernel.inputs, [kernel.result], "kernel")
        lanes = vector_lanes(kernel.result, kernel.reduction) if has_warps else 1
        return schedule_reduction(func, kernel.reduction.name, kernel.result.name, lanes)
    shape = result.shape
    threads = chosen.tiles if isinstance(chosen, CoreTiles) else chosen
    result, reduction = padded(result, reduction, threads)
    func = te.create_prim_func(inputs, [result], "kernel")
    if isinstance(chosen, CoreTiles):
        func = schedule_cores(func, reduction, result.name, chosen)
    else:
        operands = factors(formula.value)
        assert operands is not None
        names = [operand.buffer.name for operand in operands]
        func = schedule_tiles(func, reduction.name, result.name, names, chosen)
    return stored(func, shape)


def _configured(
    kernel: Kernel, has_warps: bool, has_groups: bool, config: Config
) -> GpuTiles | CoreTiles | AttentionTiles:
    """The tiles of a configuration."""
    space = gpu_kernel_space(kernel, has_warps=has_warps, has_groups=has_groups)
    if space is None:
        raise ScheduleError(f"a kernel with one schedule has no other, such as {config}")
    return space.chosen(config)


def _merged(kernel: Kernel) -> tuple[tuple[te.Tensor, ...], te.Tensor, te.Tensor]:
    """Inputs, result and reduction of a kernel with as few axes as its operands allow."""
    result, reduction = merged(kernel.result, kernel.reduction)
    assert reduction is not None
    return flat_operands(kernel.inputs, result, reduction)


def _shared(inputs: Sequence[te.Tensor], stages: SharedSums) -> PrimFunc:
    func = te.create_prim_func(inputs, [stages.result], "kernel")
    return schedule_shared(
        func,
        stages.parts.name,
        stages.sums.name,
        stages.reduction.name,
        stages.result.name,
        threads=stages.parts.shape[-1],
    )
