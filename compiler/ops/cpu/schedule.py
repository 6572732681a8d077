"""The rules: for formulas without reductions, and for a reduction and what follows it."""

from collections.abc import Mapping, Sequence

from daedal.compiler.codegen.llvm.statements import LANES, MOST_LANES
from daedal.compiler.ops.cpu.reuse import Tiles
from daedal.compiler.schedule import BlockRef, LoopRef, Schedule
from daedal.compiler.tir.stmt import PrimFunc
from daedal.compiler.tir.tile_products import TILE, TILE_OPERATIONS

__all__ = [
    "SCOPES",
    "schedule_combinations",
    "schedule_map",
    "schedule_partial_sums",
    "schedule_products",
    "schedule_reduction",
    "schedule_rows",
    "schedule_turned",
]

SCOPES = frozenset({"global", "local"})
"""The memory scopes of a processor: memory, and the registers and stack of one thread."""


def schedule_map(func: PrimFunc, block: str, part: int | None = None) -> PrimFunc:
    """Elements without a reduction: the outer axes parallel, the innermost one in vectors.

    `part` divides the only axis: so many elements are an iteration of the parallel loop.
    """
    schedule = Schedule(func, scopes=SCOPES, trusted=True)
    *outer, last = schedule.get_loops(schedule.get_block(block))
    if part is not None:
        one, last = schedule.split(last, [None, part])
        outer = [one]
    if outer:
        _parallel(schedule, outer)
    schedule.vectorize(last)
    return schedule.func


def schedule_turned(
    func: PrimFunc, block: str, tiles: Tiles, several: Mapping[int, int]
) -> PrimFunc:
    """Elements that are read along another axis than they are stored along: a tile of both at a
    time, which machine code turns in registers.

    `several`: how many tiles along an axis, by its position, are one iteration of the parallel
    loop; those along the last such axis follow each other.
    """
    schedule = Schedule(func, scopes=SCOPES, trusted=True)
    loops = schedule.get_loops(schedule.get_block(block))
    inner = _tiled(schedule, loops, tiles)
    outer, parts = list[LoopRef](), list[LoopRef]()
    for axis in tiles.outer:
        if axis in several:
            loops[axis], part = schedule.split(loops[axis], [None, several[axis]])
            parts.append(part)
        outer.append(loops[axis])
    schedule.reorder(*outer, *parts, *inner)
    _parallel(schedule, outer)
    schedule.vectorize(inner[-1])
    return schedule.func


def schedule_reduction(
    func: PrimFunc, reduction: str, result: str, tiles: Tiles | None
) -> PrimFunc:
    """A reduction in registers, then the block `result`, which reads it element by element.

    The axes of the reduction are those of the result with the tile's innermost, its lanes last.
    """
    schedule = Schedule(func, scopes=SCOPES, trusted=True)
    source, target = schedule.get_block(reduction), schedule.get_block(result)
    outer = schedule.get_loops(target)
    rank = len(outer)
    inner = [] if tiles is None else _tiled(schedule, outer, tiles)
    if tiles is not None:
        schedule.reorder(*(outer[axis] for axis in tiles.outer), *inner)
        outer = [outer[axis] for axis in tiles.outer]
    schedule.set_scope(source, 0, "local")
    schedule.compute_at(source, outer[-1])
    below = schedule.get_loops(source)[rank:]
    spatial, reduced = below[:rank], below[rank:]
    schedule.reorder(*reduced, *spatial)
    init = schedule.decompose_reduction(source, reduced[0])
    if tiles is not None:
        for block in (init, source, target):
            loops = schedule.get_loops(block)
            for row in loops[len(loops) - len(inner) : -1]:
                schedule.unroll(row)
            lane = loops[-1]
            if tiles.lanes > MOST_LANES:  # a loop around vectors would keep the sums in memory
                vector, lane = schedule.split(lane, [None, LANES])
                schedule.unroll(vector)
            schedule.vectorize(lane)
    _parallel(schedule, outer)
    return schedule.func


def schedule_products(func: PrimFunc, reduction: str, result: str, tiles: Tiles) -> PrimFunc:
    """A reduction by products of matrices in tile registers, then the block `result`.

    The sums of a register tile are several tiles of `tiles.product`; they are stored once, for
    `result` to read. The axes of the reduction are as for `schedule_reduction`.
    """
    schedule = Schedule(func, TILE_OPERATIONS, scopes=SCOPES | {TILE}, trusted=True)
    source, target = schedule.get_block(reduction), schedule.get_block(result)
    outer = schedule.get_loops(target)
    rank = len(outer)
    inner = _tiled(schedule, outer, tiles)
    outer = [outer[axis] for axis in tiles.outer]
    schedule.reorder(*outer, *inner)
    schedule.set_scope(source, 0, "local")
    stored = schedule.cache_write(source, 0, TILE)
    for block in (stored, source):
        schedule.compute_at(block, outer[-1])
    assert tiles.product is not None
    *terms, last = schedule.get_loops(source)[2 * rank :]
    last, depth = schedule.split(last, [None, tiles.product[2]])
    blocks, shape = _products(schedule, source, tiles, rank)
    schedule.reorder(*terms, last, *blocks, *shape, depth)
    init = schedule.decompose_reduction(source, (*terms, last)[0])
    for loop in blocks:
        schedule.unroll(loop)
    schedule.tensorize(shape[0], "tile_multiply")
    several = len(blocks)
    for block, operation in ((init, "tile_zero"), (stored, "tile_store")):
        if block is stored:
            blocks, shape = _products(schedule, stored, tiles, rank)
            schedule.reorder(*blocks, *shape)
        *own, row, _ = schedule.get_loops(block)[rank:]
        for loop in own[len(own) - several :]:
            schedule.unroll(loop)
        schedule.tensorize(row, operation)
    _, *rows, lane = inner
    for row in rows:
        schedule.unroll(row)
    if tiles.lanes > LANES:
        vector, lane = schedule.split(lane, [None, LANES])
        schedule.unroll(vector)
    schedule.vectorize(lane)
    _parallel(schedule, outer)
    return schedule.func


def _products(
    schedule: Schedule, block: BlockRef, tiles: Tiles, rank: int
) -> tuple[list[LoopRef], list[LoopRef]]:
    """The loops of a block's tile, which are the last of `rank` below as many: those over products,
    and the two of one product."""
    assert tiles.product is not None
    rows, columns, _ = tiles.product
    own = schedule.get_loops(block)[rank : 2 * rank]
    row, *others, lane = own[rank - len(tiles.axes) :]
    row, one = schedule.split(row, [None, rows])
    lane, each = schedule.split(lane, [None, columns])
    return [row, *others, lane], [one, each]


def schedule_partial_sums(
    func: PrimFunc, sums: Sequence[str], result: str, vectors: Sequence[int]
) -> PrimFunc:
    """A reduction in lanes, the first of `sums`, whose last axis they are; then those that combine
    its lanes, half of them at a time, and at last may do so one by one.

    The block `result` reads the last of `sums` element by element. `vectors`: of how many vectors
    the lanes of each are, the last one left out.
    """
    schedule = Schedule(func, scopes=SCOPES, trusted=True)
    outer = schedule.get_loops(schedule.get_block(result))
    _computed_at(schedule, sums, outer[-1])
    *halves, last = sums
    for name, count in zip(halves, vectors, strict=True):
        _in_lanes(schedule, name, len(outer), len(outer) + 1, count)
    for loop in schedule.get_loops(schedule.get_block(last))[2 * len(outer) :]:
        schedule.unroll(loop)
    _parallel(schedule, outer)
    return schedule.func


def schedule_rows(
    func: PrimFunc, stages: Sequence[str], result: str, lanes: Mapping[str, int], together: int = 1
) -> PrimFunc:
    """Rows of `result`, each after the same row of all blocks in `stages`, which stays in the
    cache.

    `lanes`: those that are parts of a reduction, with one more axis than `result`, and of how many
    vectors this axis is. `together`: so many rows, a divisor of the last axis but one, are computed
    side by side, block by block.
    """
    schedule = Schedule(func, scopes=SCOPES, trusted=True)
    *outer, last = schedule.get_loops(schedule.get_block(result))
    outer[-1], row = schedule.split(outer[-1], [None, together])
    _computed_at(schedule, stages, outer[-1])
    for name in stages:
        own = schedule.get_loops(schedule.get_block(name))
        schedule.unroll(own[2 * len(outer) - 1])
        if name in lanes:
            _in_lanes(schedule, name, len(outer), len(outer) + 2, lanes[name])
        else:
            schedule.vectorize(own[-1])
    schedule.unroll(row)
    schedule.vectorize(last)
    _parallel(schedule, outer)
    return schedule.func


def schedule_combinations(
    func: PrimFunc,
    stages: Mapping[str, int | None],
    result: str,
    tile: Mapping[int, int],
    lanes: int,
) -> PrimFunc:
    """Tiles of `result`, each after what it reads of all blocks in `stages`, which stays in the
    cache. Every element of a tile has code of its own.

    `stages`: of each block, the axis whose numbers choose its formulas: elements along it follow
    each other, as they share parts. `tile`: how many elements along an axis of the result are
    computed together, by its position; `lanes`: at most so many along the last axis are, too.
    """
    schedule = Schedule(func, scopes=SCOPES, trusted=True)
    outer, inner = list[LoopRef](), list[LoopRef]()
    *loops, last = schedule.get_loops(schedule.get_block(result))
    for axis, loop in enumerate(loops):
        if axis in tile:
            around, loop = schedule.split(loop, [None, tile[axis]])
            inner.append(loop)
            outer.append(around)
        else:
            outer.append(loop)
    vector, lane = schedule.split(last, [None, lanes])
    schedule.reorder(*outer, vector, *inner, lane)
    _computed_at(schedule, list(stages), vector)
    for name in (*stages, result):
        own = schedule.get_loops(schedule.get_block(name))[len(outer) + 1 :]
        chosen = stages.get(name)
        if chosen is not None:
            own.insert(-1, own.pop(chosen))
            schedule.reorder(*own)
        for loop in own[:-1]:
            schedule.unroll(loop)
        schedule.vectorize(own[-1])
    _parallel(schedule, outer)
    return schedule.func


def _in_lanes(schedule: Schedule, name: str, outer: int, axes: int, vectors: int) -> None:
    """The last of a block's axes in vectors; a reduction over others goes around it.

    `outer`: how many loops there are around the block's own; `axes`: how many it has.
    """
    block = schedule.get_block(name)
    own = schedule.get_loops(block)[outer:]
    blocks = [block]
    if reduced := own[axes:]:
        schedule.reorder(*reduced, own[axes - 1])
        blocks.append(schedule.decompose_reduction(block, reduced[0]))
    for item in blocks:
        several, lane = schedule.split(schedule.get_loops(item)[-1], [vectors, None])
        schedule.unroll(several)
        schedule.vectorize(lane)


def _computed_at(schedule: Schedule, names: Sequence[str], loop: LoopRef) -> None:
    """Blocks that read each other, computed in this order for each iteration of `loop`."""
    for name in names:
        schedule.set_scope(schedule.get_block(name), 0, "local")
    for name in reversed(names):
        schedule.compute_at(schedule.get_block(name), loop)


def _tiled(schedule: Schedule, loops: list[LoopRef], tiles: Tiles) -> list[LoopRef]:
    """The loops of a tile, its lanes last; those around it replace their own in `loops`."""
    inner: list[LoopRef] = []
    for axis, extent in (*tiles.rows, (tiles.vector, tiles.lanes)):
        loops[axis], own = schedule.split(loops[axis], [None, extent])
        inner.append(own)
    return inner


def _parallel(schedule: Schedule, loops: list[LoopRef]) -> None:
    """One parallel loop of `loops`, outermost."""
    fused = schedule.fuse(*loops) if len(loops) > 1 else loops[0]
    schedule.parallel(fused)
