"""The accelerator's schedule of a depthwise convolution.

Blocks of channels, rows and columns are tiled. Weights and parameters are loaded for several tiles
of channels at once. Every tile of the map is loaded once, with the halo of rows and columns that
its windows share with the neighbouring tiles.
"""

from collections.abc import Iterator

from daedal.compiler.codegen.intrinsics import accelerator_intrinsics
from daedal.compiler.codegen.padding import KEEP_PADDING
from daedal.compiler.codegen.vectors import num_rows
from daedal.compiler.ops.accelerator.capacity import Capacity, tile_sizes
from daedal.compiler.ops.accelerator.depthwise.cost import DepthwiseCost
from daedal.compiler.ops.accelerator.depthwise.shape import DepthwiseShape, DepthwiseTile
from daedal.compiler.ops.accelerator.fused_tail import (
    cache_params,
    load_params,
    place_tail,
    tensorize_tail,
)
from daedal.compiler.schedule.schedule import Schedule
from daedal.compiler.tir.stmt import PrimFunc
from daedal.isa.errors import ScheduleError
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.variant import Variant

__all__ = ["choose_depthwise_tile", "schedule_depthwise"]


def choose_depthwise_tile(shape: DepthwiseShape, variant: Variant) -> DepthwiseTile:
    """The tile with the fewest estimated cycles, of those that fit twice (or once, if none does).

    Raises
    ------
    ScheduleError
        Not even the smallest tile fits.
    """
    for share in (2, 1):
        tiles = list(_fitting(shape, Capacity(variant, share), variant))
        if tiles:
            cost = DepthwiseCost(shape, variant, overlaps=share > 1)
            return min(tiles, key=cost.cycles)
    height, width = shape.input_size(1, 1)
    need = height * width * scratchpad(variant, Memory.INP).row_bytes
    raise ScheduleError(
        f"a depthwise convolution's window must fit scratchpad 'inp' ({variant.memory.inp_bytes} "
        f"bytes) and its weights 'wgt'; one window of {height}x{width} pixels takes {need} bytes; "
        "use a variant with larger scratchpads"
    )


def _fitting(
    shape: DepthwiseShape, capacity: Capacity, variant: Variant
) -> Iterator[DepthwiseTile]:
    """Tiles whose rows fit; several blocks of channels only where they take the whole map."""
    for height in tile_sizes(shape.height):
        for width in tile_sizes(shape.width):
            whole = (height, width) == (shape.height, shape.width)
            rows, columns = shape.input_size(height, width)
            for blocks in tile_sizes(shape.blocks) if whole else (1,):
                if blocks * rows * columns > capacity.inp:
                    continue
                vectors = blocks * height * width
                if vectors > min(capacity.acc // (1 + shape.tail.rows), capacity.out):
                    continue
                for groups in _groups(shape, blocks, capacity, variant):
                    yield DepthwiseTile(blocks, height, width, groups)


def _groups(
    shape: DepthwiseShape, blocks: int, capacity: Capacity, variant: Variant
) -> Iterator[int]:
    """How many tiles of channels can share a load of weights and parameters: powers of two."""
    groups = 1
    while groups == 1 or blocks * groups < 2 * shape.blocks:
        channels = min(blocks * groups, shape.blocks)
        products = channels * shape.products
        # A part of the weights may begin within a row and then takes one more row.
        weights = num_rows(products, shape.taps, variant.array.block_out) + 1
        if channels + shape.tail.requantizes > capacity.par or weights > capacity.wgt:
            return
        yield groups
        groups *= 2


def schedule_depthwise(
    func: PrimFunc, shape: DepthwiseShape, variant: Variant, tile: DepthwiseTile | None = None
) -> Schedule:
    """Schedule the function of `daedal.compiler.ops.depthwise` for the accelerator.

    `tile` is chosen if it is not given.
    """
    tile = tile or choose_depthwise_tile(shape, variant)
    sch = Schedule(func, accelerator_intrinsics(variant))
    acc, y = sch.get_block("acc"), sch.get_block("y")
    store = sch.cache_write(y, 0, "out")
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
    if DepthwiseCost(shape, variant).waits_for_bus(tile):
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
