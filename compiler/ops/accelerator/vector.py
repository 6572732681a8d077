"""The accelerator's schedules of operators that only the ALU computes: add, pooling, requantize.

Blocks of channels, rows and, where a row is too long, columns are tiled. Every stage lives in the
accumulators; a parameter row serves all channels.
"""

from collections.abc import Callable, Sequence

from daedal.compiler.codegen.intrinsics import accelerator_intrinsics
from daedal.compiler.ops.accelerator.capacity import Capacity, tile_sizes
from daedal.compiler.schedule.handles import BlockRef
from daedal.compiler.schedule.schedule import Schedule
from daedal.compiler.tir.stmt import PrimFunc
from daedal.isa.errors import ScheduleError
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.variant import Variant

__all__ = ["schedule_add", "schedule_pool", "schedule_requantize"]

TILE_CYCLES = 64
"""What a tile costs beyond its work, about: instructions, tokens, latencies that do not overlap."""

Tile = tuple[int, int, int]
"""Channel blocks, rows and columns of the output."""


def schedule_add(func: PrimFunc, variant: Variant) -> Schedule:
    """Schedule `daedal.compiler.ops.elementwise.add`: all four stages work in place."""
    tile = _choose(func, variant, lambda c, h, w: 2 * c * h * w)
    sch = _tiled(func, variant, tile, ("total", "scaled_a", "scaled_b", "wide_a", "wide_b"))
    for name in ("wide_a", "wide_b"):
        sch.tensorize(sch.get_loops(sch.get_block(name))[-7], "load_widen")
    for name in ("scaled_a", "scaled_b"):
        _tensorize_rows(sch, sch.get_block(name), "alu_mul_immediate")
    _tensorize_rows(sch, sch.get_block("total"), "alu_add")
    return sch


def schedule_requantize(func: PrimFunc, variant: Variant) -> Schedule:
    """Schedule `daedal.compiler.ops.requantize.requantize`."""
    tile = _choose(func, variant, lambda c, h, w: c * h * w)
    sch = _tiled(func, variant, tile, ("wide",))
    sch.tensorize(sch.get_loops(sch.get_block("wide"))[-7], "load_widen")
    return sch


def schedule_pool(
    func: PrimFunc, kernel: Sequence[int], strides: Sequence[int], reduction: str, variant: Variant
) -> Schedule:
    """Schedule a function of `daedal.compiler.ops.pooling`; `reduction` is "add" or "max"."""

    def rows(c: int, h: int, w: int) -> int:
        height, width = (h - 1) * strides[0] + kernel[0], (w - 1) * strides[1] + kernel[1]
        return c * (h * w + height * width)

    tile = _choose(func, variant, rows)
    sch = _tiled(func, variant, tile, ("acc", "wide"))
    sch.tensorize(sch.get_loops(sch.get_block("wide"))[-7], "load_widen")
    acc = sch.get_block("acc")
    *_, b, o, kh, kw = sch.get_loops(acc)
    sch.reorder(kh, kw, b, o)
    sch.tensorize(b, f"alu_{reduction}_accumulate")
    return sch


def _choose(func: PrimFunc, variant: Variant, acc_rows: Callable[[int, int, int], int]) -> Tile:
    """The tile with the fewest estimated cycles, of those that fit twice (or once, if none does).

    Few tiles load fewer rows twice; many tiles overlap loading, computing and storing.
    """
    batches, channels, height, width, parts, _, _ = func.outputs[0].shape

    def cycles(tile: Tile) -> int:
        c, h, w = tile
        count = batches * -(-channels // c) * -(-height // h) * -(-width // w)
        return (count + 2) * parts * acc_rows(c, h, w) + TILE_CYCLES * count

    for share in (2, 1):
        capacity = Capacity(variant, share)
        fitting = [
            (c, h, w)
            for c in tile_sizes(channels)
            for h, w in _maps(height, width)
            if parts * acc_rows(c, h, w) <= capacity.acc and parts * c * h * w <= capacity.out
        ]
        if fitting:
            return min(fitting, key=cycles)
    pad = scratchpad(variant, Memory.ACC)
    raise ScheduleError(
        f"a window of {func.name!r} must fit scratchpad 'acc' of {variant.memory.acc_bytes} bytes, "
        f"and takes {parts * acc_rows(1, 1, 1) * pad.row_bytes}; use a variant with a larger one"
    )


def _maps(height: int, width: int) -> list[tuple[int, int]]:
    return [(h, width) for h in tile_sizes(height)] + [(1, w) for w in tile_sizes(width)[1:]]


def _tiled(func: PrimFunc, variant: Variant, tile: Tile, stages: Sequence[str]) -> Schedule:
    """Tile the output, and compute each tile's `stages` (consumers first) in the accumulators."""
    sch = Schedule(func, accelerator_intrinsics(variant))
    y = sch.get_block("y")
    store = sch.cache_write(y, 0, "out")
    n, c, h, w, u, b, o = sch.get_loops(store)
    c_0, c_1 = sch.split(c, [None, tile[0]])
    h_0, h_1 = sch.split(h, [None, tile[1]])
    w_0, w_1 = sch.split(w, [None, tile[2]])
    sch.reorder(n, c_0, h_0, w_0, c_1, h_1, w_1, u, b, o)
    sch.compute_at(y, w_0)
    for name in stages:
        sch.set_scope(sch.get_block(name), 0, "acc")
        sch.compute_at(sch.get_block(name), w_0)
    params = sch.cache_read(y, "params", "par")
    sch.tensorize(sch.get_loops(params)[-3], "load")
    sch.tensorize(sch.get_loops(store)[-6], "store")
    _tensorize_rows(sch, y, "requantize")
    return sch


def _tensorize_rows(sch: Schedule, block: BlockRef, intrin: str) -> None:
    """The two innermost loops, over one row, become an operation."""
    sch.tensorize(sch.get_loops(block)[-2], intrin)
