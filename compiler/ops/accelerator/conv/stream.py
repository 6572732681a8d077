"""The accelerator's schedules of a convolution over streams (`daedal.compiler.ops.conv2d_stream`).

Output channels, rows and, if a row is too long, columns are tiled. All weights of a tile's channels
stay on chip while the map is streamed. Windows that begin at the same position of a scratchpad row
(every `period`-th one) form one GEMM instruction.
"""

from daedal.compiler.codegen.intrinsics import accelerator_intrinsics
from daedal.compiler.codegen.zero_weights import ZERO_WEIGHTS, zero_weights
from daedal.compiler.ops.accelerator.conv.stream_shape import StreamShape
from daedal.compiler.ops.accelerator.conv.stream_space import StreamSpace
from daedal.compiler.ops.accelerator.fused_tail import cache_params, place_tail, tensorize_tail
from daedal.compiler.ops.accelerator.tiles.template import TileTemplate
from daedal.compiler.ops.accelerator.wide_results import result_scope
from daedal.compiler.ops.space import Config
from daedal.compiler.schedule.schedule import Schedule
from daedal.compiler.tir.stmt import PrimFunc
from daedal.isa.variant import Variant

__all__ = ["stream_template"]


def stream_template(func: PrimFunc, shape: StreamShape, variant: Variant) -> TileTemplate:
    """The schedules of the function of `daedal.compiler.ops.conv2d_stream`."""

    def build(config: Config) -> Schedule:
        return _schedule(func, shape, variant, config)

    return TileTemplate(StreamSpace(shape, variant), build)


def _schedule(func: PrimFunc, shape: StreamShape, variant: Variant, config: Config) -> Schedule:
    sch = Schedule(func, accelerator_intrinsics(variant), trusted=True)
    acc, y = sch.get_block("acc"), sch.get_block("y")
    store = sch.cache_write(y, 0, result_scope(func))
    sch.set_scope(acc, 0, "acc")
    n, oc, h, w, u, b, o = sch.get_loops(store)
    oc_0, oc_1 = sch.split(oc, [None, config["out_blocks"]])
    h_0, h_1 = sch.split(h, [None, config["height"]])
    w_0, w_1 = sch.split(w, [None, config["width"]])
    sch.reorder(oc_0, n, h_0, w_0, oc_1, h_1, w_1, u, b, o)
    sch.compute_at(y, w_0)
    requantized = place_tail(sch, w_0)
    sch.compute_at(acc, w_0)
    weights = sch.cache_read(acc, "w", "wgt")
    inputs = sch.cache_read(acc, "x", "inp")
    all_params = cache_params(sch, y, requantized)
    for params in all_params:
        sch.compute_at(params, oc_0)
    sch.compute_at(weights, oc_0)
    sch.compute_at(inputs, w_0)
    n, oc, h, w, u, b, o, g, j, i = sch.get_loops(acc)[4:]
    w, phase = sch.split(w, [None, shape.period])
    sch.reorder(phase, n, oc, h, w, u, g, j, b, o, i)
    if len(set(shape.window.vectors)) > 1:
        sch.annotate(acc, ZERO_WEIGHTS, zero_weights(1, 3, shape.window.vectors))
    sch.tensorize(b, "gemm")
    tensorize_tail(sch)
    # A LOAD for each phase: products of the first one need not wait for the weights of the others.
    oc, phase = sch.get_loops(weights)[-6:-4]
    sch.reorder(phase, oc)
    for block, dims, intrin in (
        (weights, 5, "load"),
        (inputs, 6, "load"),
        *((params, 3, "load") for params in all_params),
        (store, 6, "store"),
    ):
        sch.tensorize(sch.get_loops(block)[-dims], intrin)
    return sch
