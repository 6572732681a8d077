"""The accelerator's schedules of `daedal.compiler.ops.matmul` and `.attention`.

As many rows of the second operand as fit stay in the weights' scratchpad, while the pixels of the
first one are streamed in tiles. Corrections for zero points are accumulated once per tile of either
operand; the ALU adds them while GEMM multiplies the next tile. In attention, a tile has all
channels of its pixels, on which the ALU works row by row (`vector.rows`). If all images together
have few pixels, as the heads of a single token, a tile has those of all images, and only products
take them one by one.
"""

from collections.abc import Sequence

from daedal.compiler.codegen.intrinsics import accelerator_intrinsics
from daedal.compiler.graph.ops.looked_up import TABLE
from daedal.compiler.ops.accelerator.matmul.attention_space import (
    MASK_STAGES,
    AttentionSpace,
    images_of_tile,
    keeps_mask,
)
from daedal.compiler.ops.accelerator.matmul.space import MatmulSpace
from daedal.compiler.ops.accelerator.tiles.template import TileTemplate
from daedal.compiler.ops.accelerator.vector.elementwise_stages import (
    has_input,
    load_table,
    tensorize_rows,
)
from daedal.compiler.ops.accelerator.vector.rows import tensorize_row_stage
from daedal.compiler.ops.accelerator.wide_results import result_intrin, result_scope
from daedal.compiler.ops.space import Config
from daedal.compiler.schedule.handles import BlockRef, LoopRef
from daedal.compiler.schedule.schedule import Schedule
from daedal.compiler.tir.expr import Buffer
from daedal.compiler.tir.sites import collect
from daedal.compiler.tir.stmt import PrimFunc
from daedal.isa.variant import Variant

__all__ = ["attention_template", "matmul_template"]

_OUTER_LOOPS = 5
"""Loops over tiles, which are outside of all loops of a stage."""


def matmul_template(func: PrimFunc, variant: Variant) -> TileTemplate:
    """The schedules of the function of `daedal.compiler.ops.matmul`."""
    return TileTemplate(MatmulSpace(func, variant), lambda config: _schedule(func, variant, config))


def attention_template(func: PrimFunc, variant: Variant) -> TileTemplate:
    """The schedules of a function of `daedal.compiler.ops.attention`."""
    images = images_of_tile(func)
    return TileTemplate(
        AttentionSpace(func, variant), lambda config: _schedule(func, variant, config, images)
    )


def _schedule(func: PrimFunc, variant: Variant, config: Config, images: int = 1) -> Schedule:
    """The schedule of `config` whose tiles have so many images each."""
    sch = Schedule(func, accelerator_intrinsics(variant), trusted=True)
    sites, _ = collect(func.body)
    reads = {site.block.name: [item.buffer for item in site.block.reads] for site in sites}
    y = sch.get_block("y")
    store = sch.cache_write(y, 0, result_scope(func))
    n, oc, h, w, u, b, o = sch.get_loops(store)
    share = func.params[0].shape[0] // func.params[1].shape[0]
    inner: list[LoopRef] = []
    if images > 1:
        n, image = sch.split(n, [None, images])
        inner = [image]
    n_0, n_1 = sch.split(n, [None, share])
    oc_0, oc_1 = sch.split(oc, [None, config["out_blocks"]])
    h_0, h_1 = sch.split(h, [None, config["height"]])
    w_0, w_1 = sch.split(w, [None, config["width"]])
    sch.reorder(n_0, oc_0, n_1, h_0, w_0, *inner, oc_1, h_1, w_1, u, b, o)
    sch.compute_at(y, w_0)
    places: dict[str, tuple[str, LoopRef | None]] = {
        "left": ("inp", w_0),
        "right": ("wgt", oc_0),
        "constant": ("inp", n_0),
        "cols": ("acc", oc_0),
    }
    if keeps_mask(func, variant):
        places |= dict.fromkeys(MASK_STAGES, ("acc", None))
    stages = _producers(sch, y)
    product = next(block for block in stages if block.name == "product")
    for block in stages:
        scope, loop = places.get(block.name, ("acc", w_0))
        if block.name == "right" and images > 1:
            loop = sch.get_loops(product)[_OUTER_LOOPS]
        sch.set_scope(block, 0, scope)
        if loop is not None:
            sch.compute_at(block, loop)
    for block in stages:
        _tensorize(sch, block, reads[block.name])
    params = sch.cache_read(y, "params", "par")
    sch.compute_at(params, w_0 if _params_rows(func) > 1 else n_0)
    sch.tensorize(sch.get_loops(params)[-3], "load")
    sch.tensorize(sch.get_loops(store)[-6], "store")
    if has_input(sch, TABLE):
        load_table(sch, y, TABLE)
        tensorize_rows(sch, y, "lookup")
    else:
        tensorize_rows(sch, y, result_intrin(sch))
    return sch


def _producers(sch: Schedule, block: BlockRef) -> list[BlockRef]:
    """The blocks that `block` depends on, directly or not; each comes after all its readers."""
    found: list[BlockRef] = []
    for producer in sch.get_producers(block):
        for item in (producer, *_producers(sch, producer)):
            if item in found:
                found.remove(item)
            found.append(item)
    return found


def _params_rows(func: PrimFunc) -> int:
    return next(buffer.shape[0] for buffer in func.inputs if buffer.name == "params")


def _tensorize(sch: Schedule, block: BlockRef, reads: Sequence[Buffer]) -> None:
    """Tensorize a stage; the innermost loop of products is the sum over channel blocks."""
    loops = sch.get_loops(block)
    if block.name in ("left", "constant"):
        sch.tensorize(loops[-7], "load")
    elif block.name == "right":
        sch.tensorize(loops[-5], "load")
    elif block.name.startswith("total"):
        sch.tensorize(loops[-2], "alu_add")
    elif block.name not in ("product", "rows", "cols"):
        tensorize_row_stage(sch, block, reads)
    else:
        m, o, *sums, _ = loops[-4 if block.name == "product" else -5 :]
        sch.reorder(*sums, m, o)
        if block.name == "rows":
            factor = sch.cache_read(block, "factor", "wgt")
            sch.compute_at(factor, loops[0])
            sch.tensorize(sch.get_loops(factor)[-3], "load")
        sch.tensorize(m, "gemm")
