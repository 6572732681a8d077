"""The accelerator's schedules of `daedal.compiler.ops.matmul`.

As many rows of the second operand as fit stay in the weights' scratchpad, while the pixels of the
first one are streamed in tiles. Corrections for zero points are accumulated once per tile of either
operand; the ALU adds them while GEMM multiplies the next tile.
"""

from daedal.compiler.codegen.intrinsics import accelerator_intrinsics
from daedal.compiler.ops.accelerator.matmul.space import MatmulSpace
from daedal.compiler.ops.accelerator.tiles.template import TileTemplate
from daedal.compiler.ops.accelerator.wide_results import result_intrin, result_scope
from daedal.compiler.schedule.handles import BlockRef
from daedal.compiler.schedule.schedule import Schedule
from daedal.compiler.space import Config
from daedal.compiler.tir.stmt import PrimFunc
from daedal.isa.variant import Variant

__all__ = ["matmul_template"]


def matmul_template(func: PrimFunc, variant: Variant) -> TileTemplate:
    """The schedules of the function of `daedal.compiler.ops.matmul`."""
    return TileTemplate(MatmulSpace(func, variant), lambda config: _schedule(func, variant, config))


def _schedule(func: PrimFunc, variant: Variant, config: Config) -> Schedule:
    sch = Schedule(func, accelerator_intrinsics(variant), trusted=True)
    y = sch.get_block("y")
    store = sch.cache_write(y, 0, result_scope(func))
    n, oc, h, w, u, b, o = sch.get_loops(store)
    share = func.params[0].shape[0] // func.params[1].shape[0]
    n_0, n_1 = sch.split(n, [None, share])
    oc_0, oc_1 = sch.split(oc, [None, config["out_blocks"]])
    h_0, h_1 = sch.split(h, [None, config["height"]])
    w_0, w_1 = sch.split(w, [None, config["width"]])
    sch.reorder(n_0, oc_0, n_1, h_0, w_0, oc_1, h_1, w_1, u, b, o)
    sch.compute_at(y, w_0)
    places = {"left": ("inp", w_0), "right": ("wgt", oc_0), "constant": ("inp", n_0)}
    places["cols"] = ("acc", oc_0)
    stages = _producers(sch, y)
    for block in stages:
        scope, loop = places.get(block.name, ("acc", w_0))
        sch.set_scope(block, 0, scope)
        sch.compute_at(block, loop)
    for block in stages:
        _tensorize(sch, block)
    params = sch.cache_read(y, "params", "par")
    sch.compute_at(params, n_0 if func.params[-1].shape[0] == 1 else w_0)
    sch.tensorize(sch.get_loops(params)[-3], "load")
    sch.tensorize(sch.get_loops(store)[-6], "store")
    sch.tensorize(sch.get_loops(y)[-2], result_intrin(sch))
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


def _tensorize(sch: Schedule, block: BlockRef) -> None:
    """Tensorize a stage; the innermost loop of products is the sum over channel blocks."""
    loops = sch.get_loops(block)
    if block.name in ("left", "constant"):
        sch.tensorize(loops[-7], "load")
    elif block.name == "right":
        sch.tensorize(loops[-5], "load")
    elif block.name.startswith("total"):
        sch.tensorize(loops[-2], "alu_add")
    else:
        m, o, *sums, _ = loops[-4 if block.name == "product" else -5 :]
        sch.reorder(*sums, m, o)
        if block.name == "rows":
            factor = sch.cache_read(block, "factor", "wgt")
            sch.compute_at(factor, loops[0])
            sch.tensorize(sch.get_loops(factor)[-3], "load")
        sch.tensorize(m, "gemm")
