"""The accelerator's schedule of `daedal.compiler.ops.matmul`.

As many rows of the second operand as fit stay in the weights' scratchpad, while the pixels of the
first one are streamed in tiles. Corrections for zero points are accumulated once per tile of either
operand; the ALU adds them while GEMM multiplies the next tile.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from daedal.compiler.codegen.intrinsics import accelerator_intrinsics
from daedal.compiler.ops.accelerator.capacity import Capacity, tile_sizes
from daedal.compiler.schedule.handles import BlockRef
from daedal.compiler.schedule.schedule import Schedule
from daedal.compiler.tir.stmt import PrimFunc
from daedal.isa.errors import ScheduleError
from daedal.isa.scratchpad import Memory, scratchpads
from daedal.isa.variant import Variant

__all__ = ["MatmulTile", "choose_matmul_tile", "schedule_matmul"]

TILE_CYCLES = 64
"""What a tile costs beyond its work, about: instructions, tokens, latencies that do not overlap."""


@dataclass(frozen=True)
class MatmulTile:
    """Blocks of the result's channels, and rows and columns of the map."""

    out_blocks: int
    height: int
    width: int


def choose_matmul_tile(func: PrimFunc, variant: Variant) -> MatmulTile:
    """The tile with the fewest estimated cycles, of those that fit twice (or once, if none does).

    Raises
    ------
    ScheduleError
        Not even one pixel and one block of channels fit.
    """
    for share in (2, 1):
        tiles = list(_fitting(func, Capacity(variant, share)))
        if tiles:
            return min(tiles, key=lambda tile: _cycles(func, tile, variant))
    depth = func.params[0].shape[1] * variant.array.block_in
    raise ScheduleError(
        f"one row of a matrix product must fit scratchpad 'inp' ({variant.memory.inp_bytes} bytes) "
        f"and one block of the other operand 'wgt' ({variant.memory.wgt_bytes}); they have "
        f"{depth} elements in a row; use a variant with larger scratchpads"
    )


def _fitting(func: PrimFunc, capacity: Capacity) -> Iterator[MatmulTile]:
    _, blocks, height, width, _, _, _ = func.outputs[0].shape
    depth = func.params[0].shape[1]
    maps = [(size, width) for size in tile_sizes(height)]
    maps += [(1, size) for size in tile_sizes(width)[1:]]
    for out_blocks in tile_sizes(blocks):
        if depth * out_blocks + 1 > capacity.wgt:
            continue
        for rows, columns in maps:
            pixels = rows * columns
            # Accumulators of the product, and of the row and column corrections.
            accumulators = out_blocks * pixels + pixels + out_blocks
            fits = accumulators <= capacity.acc and out_blocks * pixels <= capacity.out
            if fits and depth * pixels + 1 <= capacity.inp:
                yield MatmulTile(out_blocks, rows, columns)


def _cycles(func: PrimFunc, tile: MatmulTile, variant: Variant) -> float:
    """Cycles of the busiest of multipliers, ALU and bus, plus non-overlapping work and overheads.

    Not overlapped are the load of a tile of each operand before the first product, and the ALU work
    and the store of a tile after the last one.
    """
    pads = scratchpads(variant)
    inp, wgt, out = (
        pads[memory].row_beats(variant) for memory in (Memory.INP, Memory.WGT, Memory.OUT)
    )
    images, blocks, height, width, _, _, lanes = func.outputs[0].shape
    depth = func.params[0].shape[1]
    outs = -(-blocks // tile.out_blocks)
    tiles = images * outs * -(-height // tile.height) * -(-width // tile.width)
    pixels, tile_pixels = images * height * width, tile.height * tile.width
    products = depth * (pixels * (blocks + outs) + images * blocks)
    vector_cycles = 2 + lanes // variant.units.requantize_lanes
    beats = depth * (outs * pixels * inp + images * blocks * wgt) + pixels * blocks * out
    begin = depth * (tile.out_blocks * wgt + tile_pixels * inp)
    end = tile.out_blocks * tile_pixels * (vector_cycles + out)
    busiest = max(products, pixels * blocks * vector_cycles, beats - begin)
    return begin + busiest + end + TILE_CYCLES * tiles


def schedule_matmul(func: PrimFunc, variant: Variant) -> Schedule:
    """Schedule the function of `daedal.compiler.ops.matmul` for the accelerator."""
    tile = choose_matmul_tile(func, variant)
    sch = Schedule(func, accelerator_intrinsics(variant))
    y = sch.get_block("y")
    store = sch.cache_write(y, 0, "out")
    n, oc, h, w, u, b, o = sch.get_loops(store)
    oc_0, oc_1 = sch.split(oc, [None, tile.out_blocks])
    h_0, h_1 = sch.split(h, [None, tile.height])
    w_0, w_1 = sch.split(w, [None, tile.width])
    sch.reorder(n, oc_0, h_0, w_0, oc_1, h_1, w_1, u, b, o)
    sch.compute_at(y, w_0)
    places = {"left": ("inp", w_0), "right": ("wgt", oc_0), "constant": ("inp", n)}
    places["cols"] = ("acc", oc_0)
    stages = _producers(sch, y)
    for block in stages:
        scope, loop = places.get(block.name, ("acc", w_0))
        sch.set_scope(block, 0, scope)
        sch.compute_at(block, loop)
    for block in stages:
        _tensorize(sch, block)
    params = sch.cache_read(y, "params", "par")
    sch.compute_at(params, n)
    sch.tensorize(sch.get_loops(params)[-3], "load")
    sch.tensorize(sch.get_loops(store)[-6], "store")
    sch.tensorize(sch.get_loops(y)[-2], "requantize")
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
