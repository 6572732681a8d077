"""Checks parallel loops: their iterations are independent, and a GPU's axes are consistent.

Rule 6 of `daedal.compiler.tir.verify`. The outermost loop that is bound to an axis of the GPU
encloses one *kernel*.
"""

from collections.abc import Mapping, Sequence

from daedal.compiler.tir.errors import InvalidIRError
from daedal.compiler.tir.expr import Buffer, Var
from daedal.compiler.tir.sites import Scope, Site
from daedal.compiler.tir.stmt import GPU_AXES, For
from daedal.compiler.tir.visit import free_vars

__all__ = ["MAX_THREADS", "check_parallel"]

MAX_THREADS = 1024
"""Threads of one block of a GPU's grid.

Source: CUDA C++ Programming Guide, compute capabilities, maximum number of threads per block.
"""


def check_parallel(sites: Sequence[Site], allocated: Mapping[Buffer, Scope]) -> None:
    """Raise InvalidIRError if a loop cannot be executed as its kind requires."""
    for site in sites:
        _check_independence(site)
    if not any(_is_bound(loop) for site in sites for loop in site.loops):
        return
    kernels: dict[Var, dict[str, For]] = {}
    for site in sites:
        bound = [loop for loop in site.loops if _is_bound(loop)]
        if bound:
            _check_path(bound)
            _check_grid(bound, kernels.setdefault(bound[0].var, {}))
    for scope in allocated.values():
        _check_memory(scope, sites)


def _is_bound(loop: For) -> bool:
    return loop.kind in GPU_AXES


def _is_thread(loop: For) -> bool:
    return loop.kind.startswith("thread.")


def _check_independence(site: Site) -> None:
    """Only loops in order may carry a reduction from one iteration to the next."""
    for loop in site.loops:
        if loop.kind in ("serial", "unroll"):
            continue
        for axis, value in zip(site.block.iter_vars, site.realize.values, strict=True):
            if axis.kind == "reduce" and loop.var in free_vars(value):
                raise InvalidIRError(
                    f"a {loop.kind} loop must have independent iterations; {loop.var.name!r} is "
                    f"part of the reduction over {axis.name!r} of block {site.block.name!r}"
                )


def _check_path(bound: Sequence[For]) -> None:
    """Each axis once from the outside in, and the grid's blocks around their threads."""
    seen: dict[str, For] = {}
    for loop in bound:
        if loop.kind in seen:
            raise InvalidIRError(
                f"an axis may be bound once around a block; {loop.var.name!r} lies inside "
                f"{seen[loop.kind].var.name!r}, which is {loop.kind} already"
            )
        seen[loop.kind] = loop
    threads = [loop for loop in bound if _is_thread(loop)]
    if threads and not _is_thread(bound[-1]):
        raise InvalidIRError(
            f"block axes must lie outside thread axes; {bound[-1].var.name!r} ({bound[-1].kind}) "
            f"lies inside {threads[0].var.name!r} ({threads[0].kind}); reorder them"
        )


def _check_grid(bound: Sequence[For], axes: dict[str, For]) -> None:
    """One extent per axis of a kernel, and no more threads than a GPU runs together."""
    for loop in bound:
        first = axes.setdefault(loop.kind, loop)
        if first.extent != loop.extent:
            raise InvalidIRError(
                f"loops along {loop.kind} within one kernel must have one extent, not "
                f"{first.extent} ({first.var.name!r}) and {loop.extent} ({loop.var.name!r}); "
                "split one of them"
            )
    count = 1
    for loop in axes.values():
        count *= loop.extent if _is_thread(loop) else 1
    if count > MAX_THREADS:
        raise InvalidIRError(
            f"a kernel may have at most {MAX_THREADS} threads per block, not {count}; split the "
            "loops that are bound to thread axes"
        )


def _check_memory(scope: Scope, sites: Sequence[Site]) -> None:
    """Shared memory is the threads' together, local memory each thread's own."""
    buffer = scope.allocation.buffer
    if buffer.scope == "shared":
        for loop in scope.loops:
            if _is_thread(loop):
                raise InvalidIRError(
                    f"a buffer in shared memory must be allocated outside thread loops; "
                    f"{buffer.name!r} lies inside {loop.var.name!r} ({loop.kind})"
                )
    if buffer.scope == "local" and any(_is_bound(loop) for loop in scope.loops):
        for site in sites:
            block = site.block
            if all(region.buffer is not buffer for region in (*block.reads, *block.writes)):
                continue
            for loop in site.loops[len(scope.loops) :]:
                if _is_thread(loop):
                    raise InvalidIRError(
                        f"a buffer in local memory must be allocated inside the thread loops that "
                        f"use it; {buffer.name!r} lies outside {loop.var.name!r} ({loop.kind})"
                    )
