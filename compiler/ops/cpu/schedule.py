"""The rules: one for formulas without reductions, one for a reduction and what follows it."""

from daedal.compiler.ops.cpu.reuse import Tiles
from daedal.compiler.schedule import LoopRef, Schedule
from daedal.compiler.tir.stmt import PrimFunc

__all__ = ["SCOPES", "schedule_map", "schedule_reduction"]

SCOPES = frozenset({"global", "local"})
"""The memory scopes of a processor: memory, and the registers and stack of one thread."""

PARALLEL_ELEMENTS = 1 << 14
"""Fewer elements are computed by one thread."""


def schedule_map(func: PrimFunc, block: str) -> PrimFunc:
    """Elements without a reduction: the outer axes parallel, the innermost one in vectors."""
    schedule = Schedule(func, scopes=SCOPES, trusted=True)
    loops = schedule.get_loops(schedule.get_block(block))
    if len(loops) > 1:
        _parallel(schedule, loops[:-1])
    schedule.vectorize(loops[-1])
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
    inner: list[LoopRef] = []
    if tiles is not None:
        if tiles.tile is not None and tiles.rows > 1:
            outer[tiles.tile], row = schedule.split(outer[tiles.tile], [None, tiles.rows])
            inner.append(row)
        outer[tiles.vector], lane = schedule.split(outer[tiles.vector], [None, tiles.lanes])
        inner.append(lane)
        schedule.reorder(*outer, *inner)
    schedule.set_scope(source, 0, "local")
    schedule.compute_at(source, outer[-1])
    own = schedule.get_loops(source)[rank:]
    spatial, reduced = own[:rank], own[rank:]
    schedule.reorder(*reduced, *spatial)
    init = schedule.decompose_reduction(source, reduced[0])
    if tiles is not None:
        for block in (init, source, target):
            *_, row, lane = schedule.get_loops(block)
            if tiles.rows > 1:
                schedule.unroll(row)
            schedule.vectorize(lane)
    _parallel(schedule, outer)
    return schedule.func


def _parallel(schedule: Schedule, loops: list[LoopRef]) -> None:
    """One parallel loop of `loops`, outermost."""
    fused = schedule.fuse(*loops) if len(loops) > 1 else loops[0]
    schedule.parallel(fused)
