"""The accelerator's schedules of operators that only the ALU computes: elementwise, pooling, moves.

Blocks of channels, rows and, if a row is too long, columns are tiled. Every stage is computed in
the accumulators; all channels use the same parameter row.
"""

from collections.abc import Sequence

import numpy as np

from daedal.compiler.codegen.intrinsics import MOVE, SLIDING, accelerator_intrinsics
from daedal.compiler.ops.accelerator.tiles.template import TileTemplate
from daedal.compiler.ops.accelerator.vector.elementwise_stages import (
    MAP_RANK,
    OWN_ROWS,
    has_parameters,
    params_reader,
    stages_of,
    tensorize_result,
    tensorize_rows,
    tensorize_stages,
)
from daedal.compiler.ops.accelerator.vector.pool_cost import PoolCost
from daedal.compiler.ops.accelerator.vector.space import VectorSpace
from daedal.compiler.ops.accelerator.vector.tile import Tile, TileWork
from daedal.compiler.ops.accelerator.wide_results import narrow_vectors, result_scope
from daedal.compiler.ops.space import Column, Config, Table
from daedal.compiler.schedule.schedule import Schedule
from daedal.compiler.tir.sites import collect
from daedal.compiler.tir.stmt import PrimFunc, Region
from daedal.isa.variant import Variant

__all__ = ["elementwise_template", "move_template", "pool_template", "tiled"]


def elementwise_template(func: PrimFunc, variant: Variant) -> TileTemplate:
    """The schedules of a function of `daedal.compiler.ops.elementwise`: stages work in place."""
    stages = stages_of(func)
    maps = [buf for buf in func.inputs if len(buf.shape) == MAP_RANK]
    operands = [buf.shape[2:4] for buf in maps]
    copies = sum(name in OWN_ROWS for name in stages)

    def work(tiles: Table) -> TileWork:
        c, h, w = (tiles[name] for name in ("blocks", "height", "width"))
        loaded = [c * np.minimum(h, height) * np.minimum(w, width) for height, width in operands]
        computed = c * h * w * (len(stages) - len(operands))
        moved = [count * narrow_vectors(buf) for buf, count in zip(maps, loaded, strict=True)]
        total: Column = np.sum(moved, axis=0)
        return TileWork(total, (*loaded, *[c * h * w] * copies), computed)

    def build(config: Config) -> Schedule:
        sch = tiled(func, variant, VectorSpace.tile(config), list(stages))
        tensorize_stages(sch, stages)
        return sch

    return TileTemplate(VectorSpace(func, variant, work), build)


def move_template(
    func: PrimFunc,
    variant: Variant,
    *,
    column_step: int = 1,
    factors: tuple[int, int] = (1, 1),
    blocks: int | None = None,
) -> TileTemplate:
    """The schedules of a function that loads ``wide`` and requantizes it: those of
    `daedal.compiler.ops.movement`, and `daedal.compiler.ops.requantize.requantize`.

    Parameters
    ----------
    column_step : columns of ``wide`` from one of the result to the next.
    factors : rows and columns of the result per row and column of ``wide``.
    blocks : channel blocks of a tile; None to choose them.
    """

    def work(tiles: Table) -> TileWork:
        columns = (tiles["width"] // factors[1] - 1) * column_step + 1
        rows = tiles["blocks"] * (tiles["height"] // factors[0]) * columns
        return TileWork(rows * narrow_vectors(func.inputs[0]), (rows,))

    def build(config: Config) -> Schedule:
        sch = tiled(func, variant, VectorSpace.tile(config), ("wide",), factors)
        sch.tensorize(sch.get_loops(sch.get_block("wide"))[-MAP_RANK], "load_widen")
        return sch

    space = VectorSpace(func, variant, work, grain=factors, blocks=blocks)
    return TileTemplate(space, build)


def pool_template(
    func: PrimFunc, kernel: Sequence[int], strides: Sequence[int], reduction: str, variant: Variant
) -> TileTemplate:
    """The schedules of a function of `daedal.compiler.ops.pooling` that reduce windows in place;
    `reduction` is "add" or "max".

    Raises ScheduleError for more divisors than the scratchpad of parameters has rows.
    """
    cost = PoolCost(func, kernel, strides, SLIDING[f"alu_{reduction}_windows"], variant)
    overlapping = kernel[0] > strides[0] or kernel[1] > strides[1]
    moves = not any(region.buffer.name == "params" for region in _reads(func, "y"))

    def build(config: Config) -> Schedule:
        tile = VectorSpace.tile(config)
        sch = tiled(func, variant, tile, ("acc", "columns", "wide"), moves=moves)
        wide = sch.get_block("wide")
        if cost.odd_rows:
            # Operands in neighbouring rows of a map then lie in two banks.
            sch.storage_align(wide, 0, 2, 2 * cost.row, cost.row)
        sch.tensorize(sch.get_loops(wide)[-MAP_RANK], "load_widen")
        for name in ("acc", "columns"):
            *_, b, o, tap = sch.get_loops(sch.get_block(name))
            sch.reorder(tap, b, o)
            sch.tensorize(b, f"alu_{reduction}_windows")
        return sch

    space = VectorSpace(
        func,
        variant,
        cost.work,
        alu_cycles=cost.alu_cycles,
        overlapping=overlapping,
        moves=moves,
        parameters=["params"] if reduction == "add" else (),
    )
    return TileTemplate(space, build)


def _reads(func: PrimFunc, name: str) -> Sequence[Region]:
    """The regions that the block `name` reads."""
    return next(site.block.reads for site in collect(func.body)[0] if site.block.name == name)


def tiled(
    func: PrimFunc,
    variant: Variant,
    tile: Tile,
    stages: Sequence[str],
    factors: tuple[int, int] = (1, 1),
    moves: bool = False,
) -> Schedule:
    """Tile the output, and compute each tile's `stages` (consumers first) in the accumulators.

    If the result repeats rows or columns `factors` times, its loops are split by these factors, so
    that each index of the operand depends on a single loop. With `moves` the result has the values
    of the last stage, and no parameters.
    """
    sch = Schedule(func, accelerator_intrinsics(variant), trusted=True)
    y = sch.get_block("y")
    store = sch.cache_write(y, 0, result_scope(func))
    *n, c, h, w, u, b, o = sch.get_loops(store)
    c_0, c_1 = sch.split(c, [None, tile[0]])
    h_0, h_1 = sch.split(h, [None, tile[1]])
    w_0, w_1 = sch.split(w, [None, tile[2]])
    sch.reorder(*n, c_0, h_0, w_0, c_1, h_1, w_1, u, b, o)
    sch.compute_at(y, w_0)
    for name in stages:
        sch.set_scope(sch.get_block(name), 0, "acc")
        sch.compute_at(sch.get_block(name), w_0)
    if not moves and has_parameters(sch):
        params = sch.cache_read(params_reader(sch), "params", "par")
        sch.tensorize(sch.get_loops(params)[-3], "load")
    sch.tensorize(sch.get_loops(store)[-6], "store")
    _, h, w, _, _, _ = sch.get_loops(y)[-6:]
    for loop, factor in zip((h, w), factors, strict=True):
        if factor > 1:
            sch.split(loop, [None, factor])
    if moves:
        tensorize_rows(sch, y, MOVE)
    else:
        tensorize_result(sch)
    return sch
