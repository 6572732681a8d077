"""Places allocations: at the innermost statement around all uses, with the size needed there.

Every primitive ends here. So a buffer that is now produced and consumed under one loop moves into
that loop and shrinks to the region used in one iteration, including the halo rows of a convolution.
"""

from collections.abc import Mapping
from dataclasses import replace

from daedal.compiler.schedule.edit import map_stmt, with_body
from daedal.compiler.tir.expr import Buffer, Var
from daedal.compiler.tir.region import accesses, clipped, union
from daedal.compiler.tir.sites import collect
from daedal.compiler.tir.stmt import (
    Allocate,
    Allocation,
    For,
    PrimFunc,
    Range,
    Region,
    Seq,
    Stmt,
    Value,
)

__all__ = ["place_allocations", "strip_allocations"]

Notes = dict[Buffer, Mapping[str, Value]]


def strip_allocations(func: PrimFunc) -> tuple[Stmt, Notes]:
    """The body without allocations, and the annotations of each allocated buffer."""
    _, scopes = collect(func.body)
    notes = {buffer: scope.allocation.annotations for buffer, scope in scopes.items()}

    def visit(stmt: Stmt) -> Stmt | None:
        if isinstance(stmt, Allocate):
            return map_stmt(stmt.body, visit)
        return None

    return map_stmt(func.body, visit), notes


def place_allocations(func: PrimFunc, body: Stmt, notes: Notes) -> PrimFunc:
    """`func` with `body`, and all buffers but the parameters allocated where they belong."""
    params = set(func.params)
    used: dict[Buffer, None] = {}
    sites, _ = collect(body)
    for site in sites:
        for region in (*site.block.writes, *site.block.reads):
            if region.buffer not in params:
                used[region.buffer] = None
    return replace(func, body=_place(body, list(used), notes, {}))


def _users(stmt: Stmt) -> set[Buffer]:
    sites, _ = collect(stmt)
    return {r.buffer for site in sites for r in (*site.block.reads, *site.block.writes)}


def _place(stmt: Stmt, buffers: list[Buffer], notes: Notes, extents: dict[Var, int]) -> Stmt:
    """Push each of `buffers`, all used in `stmt` alone, as far in as possible."""
    if not buffers:
        return stmt
    if isinstance(stmt, For):
        inner = {**extents, stmt.var: stmt.extent}
        return with_body(stmt, _place(stmt.body, buffers, notes, inner))
    here = buffers
    if isinstance(stmt, Seq):
        uses = [_users(part) for part in stmt.body]
        pushed: list[list[Buffer]] = [[] for _ in stmt.body]
        here = []
        for buffer in buffers:
            parts = [position for position, use in enumerate(uses) if buffer in use]
            if len(parts) == 1:
                pushed[parts[0]].append(buffer)
            else:
                here.append(buffer)
        if any(pushed):
            pairs = zip(stmt.body, pushed, strict=True)
            stmt = Seq(tuple(_place(part, inside, notes, extents) for part, inside in pairs))
    if not here:
        return stmt
    windows = _windows(stmt, frozenset(here), extents)
    items = [Allocation(b, windows[b], notes.get(b, {})) for b in here]
    return Allocate(tuple(items), stmt)


def _windows(
    stmt: Stmt, buffers: frozenset[Buffer], extents: Mapping[Var, int]
) -> dict[Buffer, tuple[Range, ...]]:
    """The hull of all accesses to each buffer; what is constant is clipped at the buffer."""
    found = accesses(stmt, extents, buffers)
    regions = union((Region(a.region.buffer, a.region.ranges) for a in found), extents)
    return {
        region.buffer: tuple(
            clipped(part, size, extents)
            for part, size in zip(region.ranges, region.buffer.shape, strict=True)
        )
        for region in regions
    }
