"""Moves LOADs ahead of instructions that fill another unit's queue.

FETCH hands instructions to the units in program order, so a LOAD behind many GEMM instructions
waits until GEMM's queue has space for all of them, while LOAD is idle. Half a queue is far enough,
and near enough that the first GEMM instruction of a program does not wait for many LOADs to be
fetched before it. Input and output: placed instructions with their memory, before tokens are
inserted.
"""

from collections.abc import Sequence

from daedal.compiler.codegen.segment import overlap
from daedal.compiler.link.placement.placed import PlacedInstruction
from daedal.isa.table import Unit

__all__ = ["early_loads"]


def early_loads(items: Sequence[PlacedInstruction], distance: int) -> list[PlacedInstruction]:
    """The same program with every LOAD up to `distance` instructions earlier.

    A LOAD passes only instructions that were between it and the LOAD before it, so LOADs keep their
    order. Where these are fewer than half of `distance`, they hardly fill a queue, and the LOAD
    stays. It stays behind every instruction that touches its rows or stores to its source, so the
    result is unchanged.
    """
    result: list[PlacedInstruction] = []
    after_load = 0
    for item in items:
        place = len(result)
        if item.unit is Unit.LOAD:
            short = place - after_load < distance // 2
            first = place if short else max(after_load, place - distance)
            while place > first and not _depends(item, result[place - 1]):
                place -= 1
            after_load = len(result) + 1
        result.insert(place, item)
    return result


def _depends(load: PlacedInstruction, earlier: PlacedInstruction) -> bool:
    """Whether `load` has to stay behind `earlier`."""
    rows = any(
        mine.memory is other.memory and overlap(mine.runs, other.runs, other.first - mine.first)
        for mine in load.rows
        for other in earlier.rows
    )
    if rows or load.beats is None or earlier.beats is None:
        return rows
    mine, other = load.beats, earlier.beats
    return mine.base == other.base and mine.offset < other.end and other.offset < mine.end
