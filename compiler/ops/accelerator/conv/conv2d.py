"""The accelerator's schedule of a convolution, alone or with an operator fused after it.

The output map and its channels are tiled. A tile is accumulated in steps over input channels, and
over rows and columns of the window where a whole one does not fit; each step has one LOAD per
operand and one GEMM. Either the weights stay on chip while the map is streamed,
or a tile of the map stays while the weights are streamed, whichever moves fewer bytes. Groups of
a single pixel that have few results together are one tile.
"""

from daedal.compiler.codegen.intrinsics import accelerator_intrinsics
from daedal.compiler.cost.paired_tiles import in_pairs
from daedal.compiler.ops.accelerator.conv.cost import ConvTile
from daedal.compiler.ops.accelerator.conv.shape import ConvShape
from daedal.compiler.ops.accelerator.conv.space import best_tile
from daedal.compiler.ops.accelerator.fused_tail import (
    NO_TAIL,
    cache_params,
    load_params,
    place_tail,
    tensorize_tail,
)
from daedal.compiler.ops.accelerator.wide_results import result_scope
from daedal.compiler.schedule.handles import BlockRef, LoopRef
from daedal.compiler.schedule.schedule import Schedule
from daedal.compiler.tir.stmt import PrimFunc
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.variant import Variant

__all__ = ["joins_groups", "schedule_conv2d", "skip_parts"]


def schedule_conv2d(
    func: PrimFunc, shape: ConvShape, variant: Variant, tile: ConvTile | None = None
) -> Schedule:
    """Schedule the function of `daedal.compiler.ops.conv2d`, with or without a fused operator.

    The tile is the best one if none is given.

    Raises
    ------
    ScheduleError
        Not even the smallest tile fits the scratchpads.
    """
    if tile is None:
        _, tile = best_tile([shape], variant)
    sch = Schedule(func, accelerator_intrinsics(variant), trusted=True)
    acc, y = sch.get_block("acc"), sch.get_block("y")
    store = sch.cache_write(y, 0, result_scope(func))
    sch.set_scope(acc, 0, "acc")
    n, oc, h, w, u, b, o = sch.get_loops(store)
    turns = max(tile.group // (tile.out_blocks * tile.threads), 1)
    oc_0, oc_1, thread, oc_2 = sch.split(oc, [None, turns, tile.threads, tile.out_blocks])
    h_0, h_1 = sch.split(h, [None, tile.height])
    w_0, w_1 = sch.split(w, [None, tile.width])
    inner: list[LoopRef] = []
    if joins_groups(shape, variant):
        n, group = sch.split(n, [None, shape.batches])
        inner = [group]
    maps = (n, h_0, w_0)
    if not tile.group:
        outer = (*maps, oc_0, oc_1)
    elif shape.groups > 1:
        outer = (n, oc_0, h_0, w_0, oc_1)
    else:
        outer = (oc_0, *maps, oc_1)
    sch.reorder(*outer, thread, *inner, oc_2, h_1, w_1, u, b, o)
    sch.compute_at(y, thread)
    requantized = place_tail(sch, thread, skip_parts(shape, tile, variant))
    sch.compute_at(acc, thread)
    if tile.threads > 1:
        sch.virtual_thread(thread)
    step, product = _order_products(sch, acc, tile)
    weights = sch.cache_read(acc, "w", "wgt")
    inputs = _inputs(sch, acc)
    all_params = cache_params(sch, y, requantized)
    for params in all_params:
        sch.compute_at(params, thread)
    sch.compute_at(weights, oc_0 if tile.group else step)
    sch.compute_at(inputs, w_0 if tile.keep_inputs else step)
    sch.tensorize(product, "gemm")
    for params in all_params:
        load_params(sch, params)
    tensorize_tail(sch)
    sch.tensorize(sch.get_loops(store)[-6], "store")
    _load_steps(sch, weights, 6, tile.in_blocks if tile.group else 0)
    _load_inputs(sch, inputs, tile, window_rows=(tile.taps or shape.kernel)[0])
    return sch


def joins_groups(shape: ConvShape, variant: Variant) -> bool:
    """Whether a tile has all groups: those of a 1x1 convolution of one pixel that have no more
    results than a block has channels. A tile for each would take instructions for a few rows."""
    single = (shape.height, shape.width, *shape.kernel) == (1, 1, 1, 1)
    few = shape.batches * shape.out_blocks * shape.out_parts <= variant.block
    return shape.groups > 1 and single and few and shape.tail == NO_TAIL


def skip_parts(shape: ConvShape, tile: ConvTile, variant: Variant) -> int:
    """In how many parts a tile loads the rows of another map that are added to its products: the
    fewest with which both fit a half of the accumulators. Of tiles in pairs, two fit there with a
    part of each."""
    rows = tile.out_blocks * shape.out_parts * tile.height * tile.width
    half = scratchpad(variant, Memory.ACC).depth_rows // 2
    if not shape.tail.loads or shape.tail.rows > 1 or tile.threads > 1:
        return 1
    parts = (n for n in range(1, tile.out_blocks + 1) if tile.out_blocks % n == 0)
    if shape.tail.stored > 1 and tile.out_blocks == shape.out_blocks and in_pairs(rows, 2 * half):
        # Each part may begin a row later, in another bank.
        return next((n for n in parts if 2 * (rows + rows // n + 1) <= half), 1)
    return next((n for n in parts if rows + rows // n <= half), 1)


def _inputs(sch: Schedule, acc: BlockRef) -> BlockRef:
    """The block that brings input rows on chip: the gathering one, if the operator has it."""
    producers = [block for block in sch.get_producers(acc) if block.name == "rows"]
    if not producers:
        return sch.cache_read(acc, "x", "inp")
    sch.set_scope(producers[0], 0, "inp")
    return producers[0]


def _order_products(sch: Schedule, acc: BlockRef, tile: ConvTile) -> tuple[LoopRef, LoopRef]:
    """The innermost loop over steps of the reduction, and the outermost loop of one product."""
    n, oc, h, w, u, b, o, ic, kh, kw, iu, i = sch.get_loops(acc)[-12:]
    ic_0, ic = sch.split(ic, [None, tile.in_blocks])
    steps = [ic_0]
    if tile.taps is not None:
        kh_0, kh = sch.split(kh, [None, tile.taps[0]])
        kw_0, kw = sch.split(kw, [None, tile.taps[1]])
        steps += [kh_0, kw_0]
    outputs, sums = (n, oc, h, w, u), (ic, kh, kw, iu)
    inner = (*sums, *outputs) if tile.sums_outside else (*outputs, *sums)
    sch.reorder(*steps, *inner, b, o, i)
    return steps[-1], b


def _load_inputs(sch: Schedule, inputs: BlockRef, tile: ConvTile, window_rows: int) -> None:
    """Tensorize the block that brings input rows on chip."""
    in_blocks = tile.in_blocks if tile.keep_inputs else 0
    if inputs.name != "rows":
        _load_steps(sch, inputs, 7, in_blocks)
        return
    if window_rows == 1:
        _load_steps(sch, inputs, 8, in_blocks)
        return
    # A LOAD has one stride for rows: the one inside a window, or the one between windows.
    n, channels, h, *_ = sch.get_loops(inputs)[-8:]
    steps = []
    if in_blocks:
        step, channels = sch.split(channels, [None, in_blocks])
        steps = [step]
    sch.reorder(*steps, h, n, channels)
    sch.tensorize(n, "load")


def _load_steps(sch: Schedule, copy: BlockRef, dims: int, in_blocks: int) -> None:
    """Tensorize a copy: one LOAD per step of the reduction, or a single one if `in_blocks` is 0."""
    outer, channels = sch.get_loops(copy)[-dims : 2 - dims]
    if in_blocks:
        _, outer = sch.split(channels, [None, in_blocks])
    sch.tensorize(outer, "load")
