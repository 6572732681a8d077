"""The accelerator's schedule of pooling over large windows, above all global pooling.

A row of accumulators accepts its next addend only after the last one is written, some 15 cycles
later. If there are few outputs, each column of the window is therefore first reduced in its own
accumulator row, and then the columns are combined. The rows of the window may be loaded in steps,
so the window may be larger than the accumulators.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from daedal.compiler.ops.accelerator.capacity import Capacity, tile_sizes
from daedal.compiler.ops.accelerator.vector.elementwise_stages import MAP_RANK
from daedal.compiler.ops.accelerator.vector.tile import TILE_CYCLES, accumulation
from daedal.compiler.ops.accelerator.vector.vector import tiled
from daedal.compiler.schedule.schedule import Schedule
from daedal.compiler.tir.stmt import PrimFunc
from daedal.isa.errors import ScheduleError
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.variant import Variant

__all__ = ["ColumnTile", "choose_column_tile", "schedule_pool_by_columns"]


@dataclass(frozen=True)
class ColumnTile:
    """Channel blocks of a tile of one output, and rows and columns of the window in one step."""

    blocks: int
    height: int
    width: int


def schedule_pool_by_columns(
    func: PrimFunc, kernel: Sequence[int], reduction: str, variant: Variant
) -> Schedule:
    """Schedule a function of `daedal.compiler.ops.pooling` with ``columns``; `reduction` is "add"
    or "max".

    Raises
    ------
    ScheduleError
        Not even one vector of the window fits.
    """
    tile = choose_column_tile(func, kernel, variant)
    sch = tiled(func, variant, (tile.blocks, 1, 1), ("acc",))
    acc, columns, wide = (sch.get_block(name) for name in ("acc", "columns", "wide"))
    intrin = f"alu_{reduction}_accumulate"
    *_, n, c, h, w, u, b, o, kw = sch.get_loops(acc)
    kw_0, kw_1 = sch.split(kw, [None, tile.width])
    sch.reorder(kw_0, n, c, h, w, u, kw_1, b, o)
    sch.set_scope(columns, 0, "acc")
    sch.compute_at(columns, kw_0)
    sch.tensorize(b, intrin)
    *_, n, c, h, w, u, b, o, kh = sch.get_loops(columns)
    kh_0, kh_1 = sch.split(kh, [None, tile.height])
    sch.reorder(kh_0, n, c, h, w, u, kh_1, b, o)
    sch.set_scope(wide, 0, "acc")
    sch.compute_at(wide, kh_0)
    sch.tensorize(sch.get_loops(wide)[-MAP_RANK], "load_widen")
    sch.tensorize(b, intrin)
    return sch


def choose_column_tile(func: PrimFunc, kernel: Sequence[int], variant: Variant) -> ColumnTile:
    """The tile with the fewest estimated cycles, of those that fit twice (or once, if none does).

    Raises ScheduleError where none does.
    """
    for share in (2, 1):
        tiles = list(_fitting(func, kernel, variant, share))
        if tiles:
            return min(tiles, key=lambda tile: _cycles(func, kernel, tile, variant))
    pad = scratchpad(variant, Memory.ACC)
    need = 3 * func.outputs[0].shape[4] * pad.row_bytes
    raise ScheduleError(
        f"a vector, a column and the result of {func.name!r} must fit scratchpad 'acc' of "
        f"{variant.memory.acc_bytes} bytes, and take {need}; use a variant with a larger one"
    )


def _fitting(
    func: PrimFunc, kernel: Sequence[int], variant: Variant, share: int
) -> Iterator[ColumnTile]:
    """Whole rows of the window, or parts of one."""
    capacity = Capacity(variant, share)
    parts = func.outputs[0].shape[4]
    # Buffers alternate between the halves of the accumulators; see `VectorTiles.fitting`.
    room = capacity.acc // share // parts
    for blocks in tile_sizes(func.outputs[0].shape[1]):
        if blocks * parts > capacity.out:
            continue
        steps = [(height, kernel[1]) for height in tile_sizes(kernel[0])]
        steps += [(1, width) for width in tile_sizes(kernel[1])[1:]]
        for height, width in steps:
            held = (blocks * height * width, blocks * width, blocks)
            if parts * sum(held) <= capacity.acc and max(held) <= room:
                yield ColumnTile(blocks, height, width)


def _cycles(func: PrimFunc, kernel: Sequence[int], tile: ColumnTile, variant: Variant) -> int:
    """Estimated cycles: the busier of bus and ALU in every step, then the columns' reduction."""
    batches, channels, height, width, parts, _, _ = func.outputs[0].shape
    count = batches * -(-channels // tile.blocks) * height * width
    steps = -(-kernel[0] // tile.height) * -(-kernel[1] // tile.width)
    vectors = parts * tile.blocks
    elements = variant.array.batch * variant.array.block_out
    groups = -(-elements // variant.units.alu_lanes)
    loaded = vectors * tile.height * tile.width
    bus = loaded * scratchpad(variant, Memory.OUT).row_beats(variant)
    alu = groups * accumulation(tile.height, vectors * tile.width, variant)
    last = groups * accumulation(kernel[1], vectors, variant)
    return count * (steps * (max(bus, alu) + TILE_CYCLES) + last) + min(bus, alu)
