"""The accelerator's schedule of a depthwise convolution.

Blocks of channels, rows and columns are tiled. Weights and parameters are loaded for several tiles
of channels at once. Every tile of the map is loaded once, with the halo of rows and columns that
its windows share with the neighbouring tiles.
"""

from daedal.compiler.codegen.intrinsics import accelerator_intrinsics
from daedal.compiler.codegen.padding import KEEP_PADDING
from daedal.compiler.ops.accelerator.depthwise.shape import DepthwiseShape, DepthwiseTile
from daedal.compiler.ops.accelerator.depthwise.space import DepthwiseSpace
from daedal.compiler.ops.accelerator.fused_tail import (
    cache_params,
    load_params,
    place_tail,
    tensorize_tail,
)
from daedal.compiler.ops.accelerator.wide_results import result_scope
from daedal.compiler.schedule.schedule import Schedule
from daedal.compiler.tir.stmt import PrimFunc
from daedal.isa.variant import Variant

__all__ = ["schedule_depthwise"]


def schedule_depthwise(
    func: PrimFunc, shape: DepthwiseShape, variant: Variant, tile: DepthwiseTile | None = None
) -> Schedule:
    """Schedule the function of `daedal.compiler.ops.depthwise` for the accelerator.

    The tile is the default one of `DepthwiseSpace` if none is given.
    """
    if tile is None:
        tile = DepthwiseSpace.tile(DepthwiseSpace(shape, variant).default)
    sch = Schedule(func, accelerator_intrinsics(variant), trusted=True)
    acc, y = sch.get_block("acc"), sch.get_block("y")
    store = sch.cache_write(y, 0, result_scope(func))
    sch.set_scope(acc, 0, "acc")
    n, c, h, w, u, b, o = sch.get_loops(store)
    c_0, c_1, c_2 = sch.split(c, [None, tile.groups, tile.blocks])
    h_0, h_1 = sch.split(h, [None, tile.height])
    w_0, w_1 = sch.split(w, [None, tile.width])
    sch.reorder(c_0, n, c_1, h_0, w_0, c_2, h_1, w_1, u, b, o)
    sch.compute_at(y, w_0)
    requantized = place_tail(sch, w_0)
    sch.compute_at(acc, w_0)
    n, c, h, w, u, b, o, kh, kg, kt = sch.get_loops(acc)[5:]
    sch.reorder(n, c, h, w, u, kh, kg, b, o, kt)
    if tile.keep_padding:
        sch.annotate(acc, KEEP_PADDING, True)
    weights = sch.cache_read(acc, "w", "wgt")
    inputs = sch.cache_read(acc, "x", "inp")
    all_params = cache_params(sch, y, requantized)
    for params in all_params:
        sch.compute_at(params, c_0)
    sch.compute_at(weights, c_0)
    sch.compute_at(inputs, w_0)
    sch.tensorize(b, "gemm_depthwise" if shape.taps == 1 else "gemm_depthwise3")
    tensorize_tail(sch)
    for params in all_params:
        load_params(sch, params)
    for block, dims, intrin in (
        (weights, 5, "load"),
        (inputs, 7, "load"),
        (store, 6, "store"),
    ):
        sch.tensorize(sch.get_loops(block)[-dims], intrin)
    return sch
