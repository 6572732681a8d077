"""The rules: a thread for each element of the result, or a block of threads for a tile of it."""

import math
from collections.abc import Sequence

from daedal.compiler.codegen.gpu.kernel import RESIDENT
from daedal.compiler.ops.gpu.tiles import (
    FEW_THREADS,
    MOST_SUMS,
    RESIDENT_THREADS,
    GpuTiles,
    resident_blocks,
)
from daedal.compiler.schedule import BlockRef, LoopRef, Schedule
from daedal.compiler.tir.stmt import PrimFunc

__all__ = [
    "SCOPES",
    "THREADS",
    "schedule_map",
    "schedule_reduction",
    "schedule_shared",
    "schedule_tiles",
]

SCOPES = frozenset({"global", "shared", "fragment", "local"})
"""The memory scopes of a GPU: its memory, that of a block, the registers of a block's threads
together, and those of one thread."""

THREADS = 256
"""Of a block, where nothing else decides."""


def schedule_map(func: PrimFunc, block: str, lanes: int = 1) -> PrimFunc:
    """Elements without a reduction; a thread has `lanes` neighbours."""
    schedule = Schedule(func, scopes=SCOPES, trusted=True)
    _bind_elements(schedule, schedule.get_loops(schedule.get_block(block)), lanes)
    return schedule.func


def schedule_reduction(func: PrimFunc, reduction: str, result: str, lanes: int = 1) -> PrimFunc:
    """A reduction that each thread computes for `lanes` neighbours, and what follows it."""
    schedule = Schedule(func, scopes=SCOPES, trusted=True)
    source, target = schedule.get_block(reduction), schedule.get_block(result)
    loops = schedule.get_loops(target)
    thread = _bind_elements(schedule, loops, lanes)
    schedule.set_scope(source, 0, "local")
    schedule.compute_at(source, thread)
    if lanes > 1:
        _, _, *own = schedule.get_loops(source)
        lane, terms = own[len(loops) - 1], own[len(loops) :]
        schedule.reorder(*terms, lane)
        init = schedule.decompose_reduction(source, terms[0])
        schedule.vectorize(schedule.get_loops(init)[-1])
        schedule.vectorize(lane)
    return schedule.func


def schedule_shared(
    func: PrimFunc, parts: str, sums: str, reduction: str, result: str, threads: int
) -> PrimFunc:
    """A block of threads for each result: `parts` of all threads and `sums` of a few are in shared
    memory, and the first thread has `reduction` and what follows it."""
    schedule = Schedule(func, scopes=SCOPES, trusted=True)
    names = (parts, sums, reduction, result)
    first, second, last, target = (schedule.get_block(name) for name in names)
    loops = schedule.get_loops(target)
    block = schedule.fuse(*loops) if len(loops) > 1 else loops[0]
    schedule.bind(block, "block.x")
    for stage, scope in ((last, "local"), (second, "shared"), (first, "shared")):
        schedule.set_scope(stage, 0, scope)
        schedule.compute_at(stage, block)
    rank = len(loops)
    (thread,) = schedule.get_loops(first)[1 + rank : 2 + rank]
    schedule.bind(thread, "thread.x")
    (few,) = schedule.get_loops(second)[1 + rank : 2 + rank]
    _, thread = schedule.split(few, [None, threads])
    schedule.bind(thread, "thread.x")
    return schedule.func


def schedule_tiles(
    func: PrimFunc, reduction: str, result: str, operands: Sequence[str], tiles: GpuTiles
) -> PrimFunc:
    """A reduction in tiles, whose `operands` are copied to shared memory, and what follows it."""
    schedule = Schedule(func, scopes=SCOPES, trusted=True)
    source, target = schedule.get_block(reduction), schedule.get_block(result)
    block = _tile(schedule, schedule.get_loops(target), tiles)
    schedule.set_scope(source, 0, "fragment")
    schedule.compute_at(source, block)
    loops = schedule.get_loops(source)[1:]
    rank = len(tiles.threads)
    spatial, reduced = loops[:rank], loops[rank:]
    steps, inner = _split(schedule, reduced, tiles.depth)
    threads, elements = _split(schedule, spatial, tiles.elements)
    schedule.reorder(*steps, *threads, *inner, *elements)
    step = schedule.fuse(*steps) if len(steps) > 1 else steps[0]
    _bind_threads(schedule, threads)
    copies = [schedule.cache_read(source, operand, "shared") for operand in operands]
    for copy in copies:
        schedule.compute_at(copy, step)
    init = schedule.decompose_reduction(source, step)
    for loop in elements:
        schedule.unroll(loop)
    _, first_thread, *first_elements = schedule.get_loops(init)
    schedule.bind(first_thread, "thread.x")
    for loop in first_elements:
        schedule.unroll(loop)
    count = math.prod(tiles.threads)
    for copy in copies:
        _copy_together(schedule, copy, count)
    is_small = math.prod(tiles.elements) <= MOST_SUMS
    together = RESIDENT_THREADS if is_small else FEW_THREADS
    schedule.annotate(block, RESIDENT, resident_blocks(count, together))
    return schedule.func


def _bind_elements(schedule: Schedule, loops: list[LoopRef], lanes: int = 1) -> LoopRef:
    """A thread for each iteration of nested loops, or for `lanes` of the innermost one; the loop of
    the threads."""
    if lanes > 1:
        last, lane = schedule.split(loops[-1], [None, lanes])
        schedule.vectorize(lane)
        loops = [*loops[:-1], last]
    fused = schedule.fuse(*loops) if len(loops) > 1 else loops[0]
    blocks, threads = schedule.split(fused, [None, THREADS])
    schedule.bind(blocks, "block.x")
    schedule.bind(threads, "thread.x")
    return threads


def _tile(schedule: Schedule, loops: list[LoopRef], tiles: GpuTiles) -> LoopRef:
    """Tiles of the loops that store the result; the loop of the blocks."""
    blocks, inner = _split(schedule, loops, tiles.block)
    threads, elements = _split(schedule, inner, tiles.elements)
    schedule.reorder(*blocks, *threads, *elements)
    block = schedule.fuse(*blocks) if len(blocks) > 1 else blocks[0]
    schedule.bind(block, "block.x")
    _bind_threads(schedule, threads)
    for loop in elements:
        schedule.unroll(loop)
    return block


def _split(
    schedule: Schedule, loops: Sequence[LoopRef], sizes: Sequence[int]
) -> tuple[list[LoopRef], list[LoopRef]]:
    """Each loop as two, the inner one of its size."""
    pairs = [schedule.split(loop, [None, size]) for loop, size in zip(loops, sizes, strict=True)]
    return [outer for outer, _ in pairs], [inner for _, inner in pairs]


def _bind_threads(schedule: Schedule, loops: Sequence[LoopRef]) -> None:
    """The threads of a block for all iterations of nested loops."""
    thread = schedule.fuse(*loops) if len(loops) > 1 else loops[0]
    schedule.bind(thread, "thread.x")


def _copy_together(schedule: Schedule, copy: BlockRef, threads: int) -> None:
    """The elements of a copy in shared memory, neighbours by neighbouring threads."""
    loops = schedule.get_loops(copy)[2:]
    fused = schedule.fuse(*loops) if len(loops) > 1 else loops[0]
    _, thread = schedule.split(fused, [None, threads])
    schedule.bind(thread, "thread.x")
