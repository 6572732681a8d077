"""Products of 16-bit reals or int8 by the products of matrices that a warp has instructions for.

A block of threads computes a tile of the result, each warp a part of it in tiles of the
instruction, whose sums are in the registers of its threads. Operands are copied to shared memory,
some of the reduction at a time: by asynchronous copies some steps ahead, where their rows are whole
words in memory.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from daedal.compiler import te
from daedal.compiler.codegen.gpu.kernel import RESIDENT
from daedal.compiler.ops.gpu.copies import chunk_dimension, chunk_elements
from daedal.compiler.ops.gpu.schedule import SCOPES
from daedal.compiler.ops.gpu.tiles import (
    CORE_THREADS,
    FEW_THREADS,
    MOST_SUMS,
    SHARED_BYTES,
    GpuTiles,
    factors,
    resident_blocks,
    shared_bytes,
    window,
)
from daedal.compiler.schedule import BlockRef, LoopRef, Schedule
from daedal.compiler.tir.expr import Axis, Cast, Expr, Load, Reduce, Var
from daedal.compiler.tir.stmt import PrimFunc
from daedal.compiler.tir.visit import free_vars, walk
from daedal.compiler.tir.warp_products import (
    COLUMNS,
    WARP_PRODUCTS,
    WARP_THREADS,
    WarpProduct,
)

__all__ = ["CoreTiles", "choose_core_tiles", "product_of", "schedule_cores", "warp_axes"]

BLOCK = 64
"""Rows and columns of a block of threads, at most."""
WARPS = 4
"""Of a block, at most."""
DEPTH = 32
"""Elements of the longest axis of a reduction that are in shared memory at a time."""
APART = (32, 8)
"""Elements from one term to the next, modulo the first: groups of as many terms as a word of 4
bytes has begin 32 bytes apart, modulo the 128 bytes of all banks."""
STAGES = 3
"""Steps of the reduction whose operands are in shared memory, at most: one is multiplied while two
are copied."""
FEWEST = 8
"""Rows and columns that are worth an instruction for sixteen and eight; half as many rows, if there
are others along another axis."""
FEWEST_TERMS = 16
"""Of the longest axis."""
ELEMENTS = (2, 4)
"""Rows and columns of an instruction's result that one thread has: see `lane_loops`."""


@dataclass(frozen=True)
class CoreTiles:
    """Extents of tiles.

    Attributes
    ----------
    product : the instruction.
    tiles : its `threads` are warps, its `elements` those of a warp.
    row, column, term : axes of the result and of the reduction that the instruction is along.
    stages : steps of the reduction whose operands are in shared memory at a time.
    boxes : whether one thread has operands copied, not each a part.
    """

    product: WarpProduct
    tiles: GpuTiles
    row: int
    column: int
    term: int
    stages: int = 1
    boxes: bool = False

    @property
    def warp_rows(self) -> int:
        """Of a warp, along all axes but the columns'."""
        return math.prod(self.tiles.elements) // self.tiles.elements[self.column]

    @property
    def copied(self) -> int:
        """Elements of both operands in a step, where no windows leave any out."""
        columns = self.tiles.block[self.column]
        rows = math.prod(self.tiles.block) // columns
        return (rows + columns) * math.prod(self.tiles.depth)

    @property
    def warps(self) -> int:
        """Of a block."""
        return math.prod(self.tiles.threads)


def choose_core_tiles(
    value: Expr,
    axes: Sequence[Axis],
    reduced: Sequence[Axis],
    most: tuple[int, int] = (BLOCK, BLOCK),
    deep: int = DEPTH,
    stages: int = STAGES,
) -> CoreTiles | None:
    """The tiles of a sum of `value` over `reduced`; None where there is no instruction for it, or
    not enough shared memory.

    Parameters
    ----------
    most : rows and columns of a block.
    deep : terms of a step.
    stages : at most; fewer where there are fewer steps, or memory has no room.
    """
    operands = factors(value)
    product = product_of(value, operands, WARP_PRODUCTS.values())
    if operands is None or product is None or deep % product.depth:
        return None
    found = warp_axes(operands, axes, reduced)
    if found is None:
        return None
    row, column, term = found
    depth = [1] * len(reduced)
    depth[term] = deep
    height, columns = (
        _size(axes[row].extent, product.rows, most[0]),
        _size(axes[column].extent, product.columns, most[1]),
    )
    block = [1] * len(axes)
    block[row], block[column] = height, columns
    _fill_rows(block, operands, axes, reduced, row, depth, most[0] // height)
    num_rows = math.prod(block) // columns
    down, across = _warps(num_rows // product.rows, columns // product.columns)
    threads = [1] * len(axes)
    threads[column] = across
    for position in (row, *(n for n in range(len(axes)) if n not in (row, column))):
        units = height // product.rows if position == row else block[position]
        threads[position] = min(down, units)
        down //= threads[position]
    elements = (size // count for size, count in zip(block, threads, strict=True))
    tiles = GpuTiles(tuple(threads), tuple(elements), tuple(depth))
    steps = math.prod(
        -(-axis.extent // size) for axis, size in zip(reduced, tiles.depth, strict=True)
    )
    room = SHARED_BYTES // shared_bytes(operands, axes, reduced, tiles)
    if not room:
        return None
    return CoreTiles(product, tiles, row, column, term, min(stages, steps, room))


def _fill_rows(
    block: list[int],
    operands: tuple[Load, Load],
    axes: Sequence[Axis],
    reduced: Sequence[Axis],
    row: int,
    depth: Sequence[int],
    left: int,
) -> None:
    """Make `block` up to `left` times as high along other axes of the rows, those that lie closest
    first: rows of an image are short. Not where windows leave out most of what lies between them,
    as this would be copied, too."""

    def copied() -> int:
        sizes = (*block, *depth)
        tile: dict[Var, int] = dict(zip((*axes, *reduced), sizes, strict=True))
        return math.prod(window(operands[0], tile))

    used = [{var for index in operand.indices for var in free_vars(index)} for operand in operands]
    for position in reversed(range(len(axes))):
        axis = axes[position]
        if position == row or axis not in used[0] or axis in used[1]:
            continue
        least, size = copied(), min(left, 1 << (axis.extent - 1).bit_length())
        while size > 1:
            block[position] = size
            if copied() <= size * least:
                break
            size //= 2
        block[position] = size
        left //= size


def warp_axes(
    operands: Sequence[Load], axes: Sequence[Axis], reduced: Sequence[Axis]
) -> tuple[int, int, int] | None:
    """The axes of the result that are rows and columns of a product of matrices, and the one of the
    reduction, by number; None where they are too short."""
    used = [{var for index in operand.indices for var in free_vars(index)} for operand in operands]
    rows = [n for n, axis in enumerate(axes) if axis in used[0] and axis not in used[1]]
    columns = [n for n, axis in enumerate(axes) if axis in used[1] and axis not in used[0]]
    if not rows or not columns:
        return None
    row, column = (max(group, key=lambda n: (axes[n].extent, n)) for group in (rows, columns))
    term = max(range(len(reduced)), key=lambda n: reduced[n].extent)
    num_rows = math.prod(axes[n].extent for n in rows)
    fewest = min(2 * axes[row].extent, num_rows, axes[column].extent)
    if fewest < FEWEST or reduced[term].extent < FEWEST_TERMS:
        return None
    if any(reduced[term] not in group for group in used):
        return None
    return row, column, term


def schedule_cores(func: PrimFunc, reduction: te.Tensor, result: str, cores: CoreTiles) -> PrimFunc:
    """A reduction by products of matrices, and what follows it."""
    intrinsics = {cores.product.name: cores.product}
    schedule = Schedule(func, intrinsics, scopes=SCOPES, trusted=True)
    source, target = schedule.get_block(reduction.name), schedule.get_block(result)
    loops = schedule.get_loops(target)
    pairs = _pairs(schedule, loops, cores.tiles.block)
    warps, own, inside = _tiled(schedule, [inner for _, inner in pairs], cores)
    blocks = [outer for outer, _ in pairs]
    schedule.reorder(*blocks, *warps, *own, *inside)
    block = _fused(schedule, blocks)
    schedule.bind(block, "block.x")
    _bind_warps(schedule, _fused(schedule, warps), cores)
    _bind_lanes(schedule, own, inside, cores.product)
    schedule.set_scope(source, 0, "fragment")
    schedule.compute_at(source, block)
    _products(schedule, source, reduction, cores)
    if cores.product.warps == 1:
        threads = cores.warps * WARP_THREADS
        is_small = math.prod(cores.tiles.elements) <= MOST_SUMS * WARP_THREADS
        together = CORE_THREADS if is_small else FEW_THREADS
        schedule.annotate(block, RESIDENT, resident_blocks(threads, together))
    return schedule.func


def _products(schedule: Schedule, source: BlockRef, reduction: te.Tensor, cores: CoreTiles) -> None:
    """The reduction inside the loop of blocks, and the copies of its operands."""
    tiles, rank = cores.tiles, len(cores.tiles.threads)
    loops = schedule.get_loops(source)[1:]
    warps, own, inside = _tiled(schedule, loops[:rank], cores)
    pairs = _pairs(schedule, loops[rank:], tiles.depth)
    steps = [outer for outer, _ in pairs]
    chunks = [inner for _, inner in pairs]
    chunk, terms = schedule.split(chunks[cores.term], [None, cores.product.depth])
    chunks[cores.term] = chunk
    schedule.reorder(*steps, *warps, *chunks, *own, *inside, terms)
    step = _fused(schedule, steps)
    _bind_warps(schedule, _fused(schedule, warps), cores)
    formula = reduction.value
    assert isinstance(formula, Reduce)
    operands = factors(formula.value)
    assert operands is not None
    copies = [schedule.cache_read(source, item.buffer.name, "shared") for item in operands]
    for copy in copies:
        schedule.compute_at(copy, step)
    init = schedule.decompose_reduction(source, step)
    for loop in (*chunks, *own):
        schedule.unroll(loop)
    schedule.tensorize(inside[0], cores.product.name)
    first = schedule.get_loops(init)[1:]
    _bind_warps(schedule, first[0], cores)
    _bind_lanes(schedule, first[1 if cores.warps > 1 else 0 : -2], first[-2:], cores.product)
    sizes = (*tiles.block, *tiles.depth)
    tile: dict[Var, int] = dict(zip((*reduction.axes, *formula.axes), sizes, strict=True))
    term = formula.axes[cores.term]
    for operand, copy in zip(operands, copies, strict=True):
        _keep_apart(schedule, operand, copy, tile, term, cores.product)
        _copied(schedule, operand, copy, tile, cores)


def _copied(
    schedule: Schedule, operand: Load, copy: BlockRef, tile: Mapping[Var, int], cores: CoreTiles
) -> None:
    """The copy of an operand to shared memory by all threads: asynchronously, if its rows allow."""
    loops = schedule.get_loops(copy)[2:]
    if cores.boxes:
        schedule.stage(copy, 0, cores.stages, boxes=True)
        return
    count = chunk_elements(operand, tile) if cores.stages > 1 else 0
    if count:
        along = chunk_dimension(operand)
        loops[along], chunk = schedule.split(loops[along], [None, count])
        schedule.reorder(*loops, chunk)
        schedule.stage(copy, 0, cores.stages)
    fused = _fused(schedule, loops)
    _, warp, lane = schedule.split(fused, [None, cores.warps, WARP_THREADS])
    _bind_warps(schedule, warp, cores)
    schedule.bind(lane, "thread.x")


def _keep_apart(
    schedule: Schedule,
    operand: Load,
    copy: BlockRef,
    tile: Mapping[Var, int],
    term: Axis,
    product: WarpProduct,
) -> None:
    """Lay an operand out so that the threads of a warp need different banks.

    They read rows of 16 bytes, or elements of four groups of terms and eight rows or columns of the
    result. A swizzle does for both, unless groups are no power of two apart. Groups of warps need
    lines of 128 bytes.
    """
    along = max(n for n, index in enumerate(operand.indices) if term in free_vars(index))
    apart = math.prod(window(operand, tile)[along + 1 :])
    if product.warps > 1:
        schedule.swizzle(copy, 0, panels=apart > 1)
    elif apart & (apart - 1) == 0:
        schedule.swizzle(copy, 0)
    else:
        schedule.storage_align(copy, 0, along, *APART)


def _tiled(
    schedule: Schedule, loops: Sequence[LoopRef], cores: CoreTiles
) -> tuple[list[LoopRef], list[LoopRef], list[LoopRef]]:
    """Loops of a block's tile: of warps, of the tiles of each, and the two within such a tile."""
    pairs = _pairs(schedule, loops, cores.tiles.elements)
    own, inside = [inner for _, inner in pairs], []
    sizes = (cores.row, cores.product.rows), (cores.column, cores.product.columns)
    for position, size in sizes:
        own[position], inner = schedule.split(own[position], [None, size])
        inside.append(inner)
    return [outer for outer, _ in pairs], own, inside


def _bind_warps(schedule: Schedule, loop: LoopRef, cores: CoreTiles) -> None:
    """The warps of a block for the iterations of a loop."""
    if cores.warps > 1:
        schedule.bind(loop, "thread.y")


def _bind_lanes(
    schedule: Schedule, own: Sequence[LoopRef], inside: Sequence[LoopRef], product: WarpProduct
) -> None:
    """The elements of a tile by the threads that have them after a product: see `lane_loops`."""
    rows, columns = inside
    if product.warps > 1:
        eight, columns = schedule.split(columns, [None, COLUMNS])
        own = (*own, eight)
    upper, row = schedule.split(rows, [ELEMENTS[0], None])
    column, pair = schedule.split(columns, [ELEMENTS[1], None])
    schedule.reorder(*own, row, column, upper, pair)
    schedule.bind(schedule.fuse(row, column), "thread.x")
    for loop in (*own, upper, pair):
        schedule.unroll(loop)


def _pairs(
    schedule: Schedule, loops: Sequence[LoopRef], sizes: Sequence[int]
) -> list[tuple[LoopRef, LoopRef]]:
    """Each loop as two, the inner one of its size."""
    found = []
    for loop, size in zip(loops, sizes, strict=True):
        outer, inner = schedule.split(loop, [None, size])
        found.append((outer, inner))
    return found


def _fused(schedule: Schedule, loops: Sequence[LoopRef]) -> LoopRef:
    return schedule.fuse(*loops) if len(loops) > 1 else loops[0]


def product_of(
    value: Expr, operands: tuple[Load, Load] | None, products: Iterable[WarpProduct]
) -> WarpProduct | None:
    """The first instruction for two operands, each converted to the sums' dtype."""
    if operands is None or operands[0].buffer is operands[1].buffer:
        return None
    if sum(isinstance(node, Cast) for node in walk(value)) != 2:
        return None
    kinds = {operand.buffer.dtype for operand in operands}
    for product in products:
        if kinds == {product.dtype} and value.dtype == product.sums:
            return product
    return None


def _size(extent: int, least: int, most: int) -> int:
    """Of a block's tile along an axis: a power of two."""
    return max(least, min(most, 1 << (extent - 1).bit_length()))


def _warps(rows: int, columns: int) -> tuple[int, int]:
    """Along both axes of a tile of so many results of instructions."""
    down = min(rows, max(2, WARPS // columns), WARPS)
    return down, min(columns, WARPS // down)
