"""The rules for any kernel: one thread for each element of the result."""

from daedal.compiler.schedule import LoopRef, Schedule
from daedal.compiler.tir.stmt import PrimFunc

__all__ = ["SCOPES", "THREADS", "schedule_map", "schedule_reduction"]

SCOPES = frozenset({"global", "shared", "fragment", "local"})
"""The memory scopes of a GPU: its memory, that of a block, the registers of a block's threads
together, and those of one thread."""

THREADS = 256
"""Of a block, where nothing else decides."""


def schedule_map(func: PrimFunc, block: str) -> PrimFunc:
    """Elements without a reduction."""
    schedule = Schedule(func, scopes=SCOPES, trusted=True)
    bind_elements(schedule, schedule.get_loops(schedule.get_block(block)))
    return schedule.func


def schedule_reduction(func: PrimFunc, reduction: str, result: str) -> PrimFunc:
    """A reduction that each thread computes for one element, and what follows it."""
    schedule = Schedule(func, scopes=SCOPES, trusted=True)
    source, target = schedule.get_block(reduction), schedule.get_block(result)
    thread = bind_elements(schedule, schedule.get_loops(target))
    schedule.set_scope(source, 0, "local")
    schedule.compute_at(source, thread)
    return schedule.func


def bind_elements(schedule: Schedule, loops: list[LoopRef]) -> LoopRef:
    """A thread for each iteration of nested loops; the loop of the threads."""
    fused = schedule.fuse(*loops) if len(loops) > 1 else loops[0]
    blocks, threads = schedule.split(fused, [None, THREADS])
    schedule.bind(blocks, "block.x")
    schedule.bind(threads, "thread.x")
    return threads
