"""Fragments: tiles of a block of threads, whose elements lie in the registers of their threads.

    alloc f: float32[8, 4] in fragment             alloc f: float32[1, 4] in local
    for t in 8 thread.x, j in 4:                   for t in 8 thread.x, j in 4:
        f[t, j] = 0                                    f[0, j] = 0
    for k in 3:                             =>     for k in 3:
        for t in 8 thread.x, j in 4:                   for t in 8 thread.x, j in 4:
            f[t, j] = f[t, j] + x[k, t, j]                 f[0, j] = f[0, j] + x[k, t, j]

Each index is the sum of a part that the thread decides and one that its loops decide, and the first
is the same wherever the fragment is used. An element belongs to one thread. The elements of threads
may alternate: of rows ``i * 8 + t``, with 8 threads, each has every eighth, ``f[i, ...]``. What is
`local` then lives as long as the fragment did, in each thread.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from daedal.common.errors import UnsupportedError
from daedal.compiler.tir.evaluate import evaluate
from daedal.compiler.tir.expr import Buffer, Expr, IntImm, Load, Var
from daedal.compiler.tir.linear import Linear, linear
from daedal.compiler.tir.lower.rebuild import rebuilt
from daedal.compiler.tir.lower.threads import MAX_POINTS, THREAD_AXES, Places, Threads, no_load
from daedal.compiler.tir.stmt import (
    Allocate,
    Allocation,
    BufferStore,
    For,
    If,
    PrimFunc,
    Range,
    Seq,
    Stmt,
)
from daedal.compiler.tir.visit import free_vars, loads, rewrite

__all__ = ["lower_fragments"]


def lower_fragments(func: PrimFunc) -> PrimFunc:
    """A lowered function of one kernel without buffers in scope ``fragment``.

    Raises UnsupportedError for a fragment whose elements belong to no one thread.
    """
    uses: dict[Buffer, list[_Use]] = {}
    for use in _uses(func.body, ()):
        uses.setdefault(use.buffer, []).append(use)
    threads = Threads.of(func)
    known = {buffer: _local(buffer, found, threads) for buffer, found in uses.items()}
    return replace(func, body=_lowered(func.body, known, ()))


@dataclass(frozen=True)
class _Use:
    """An access of a fragment, and the loops around it."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    loops: tuple[For, ...]


@dataclass(frozen=True)
class _Local:
    """What each thread has of a fragment: every so many elements of each dimension."""

    buffer: Buffer
    steps: tuple[int, ...]

    def indices(self, indices: Sequence[Expr], loops: Sequence[For]) -> tuple[Expr, ...]:
        """Of an element there."""
        found = []
        for index, step in zip(indices, self.steps, strict=True):
            form = linear(_split(index, loops)[1])
            terms = tuple((term, factor // step) for term, factor in form.terms)
            found.append(Linear(terms, form.constant // step).expr())
        return tuple(found)


def _uses(stmt: Stmt, loops: tuple[For, ...]) -> Iterator[_Use]:
    match stmt:
        case Seq(body):
            for part in body:
                yield from _uses(part, loops)
        case For(_, _, body):
            yield from _uses(body, (*loops, stmt))
        case Allocate(_, body):
            yield from _uses(body, loops)
        case If(condition, body):
            yield from _read(condition, loops)
            yield from _uses(body, loops)
        case BufferStore(buffer, indices, value):
            if buffer.scope == "fragment":
                yield _Use(buffer, indices, loops)
            for expr in (*indices, value):
                yield from _read(expr, loops)


def _read(expr: Expr, loops: tuple[For, ...]) -> Iterator[_Use]:
    for load in loads(expr):
        if load.buffer.scope == "fragment":
            yield _Use(load.buffer, load.indices, loops)


def _local(buffer: Buffer, uses: Sequence[_Use], threads: Threads) -> _Local:
    """What each thread has of a fragment."""
    wanted: list[Places] | None = None
    rank = len(buffer.shape)
    steps, ends = [0] * rank, [1] * rank
    for use in uses:
        extents = {loop.var: loop.extent for loop in use.loops}
        begins = []
        for dimension, index in enumerate(use.indices):
            own, rest = _split(index, use.loops)
            begins.append(_values(own, use.loops, threads))
            form = linear(rest)
            limits = form.bounds(extents)
            if limits is None or limits[0] < 0:
                raise _no_owner(buffer)
            ends[dimension] = max(ends[dimension], limits[1] + 1)
            steps[dimension] = math.gcd(
                steps[dimension], form.constant, *(f for _, f in form.terms)
            )
        if wanted is None:
            wanted = begins
        elif any((a != b).any() for a, b in zip(wanted, begins, strict=True)):
            raise _no_owner(buffer)
    assert wanted is not None
    _check_owners(buffer, wanted, uses)
    steps = [max(step, 1) for step in steps]
    shape = tuple(-(-end // step) for end, step in zip(ends, steps, strict=True))
    return _Local(Buffer(buffer.name, shape, buffer.dtype, "local"), tuple(steps))


def _check_owners(buffer: Buffer, begins: Sequence[Places], uses: Sequence[_Use]) -> None:
    """No element is in the tiles of two threads."""
    extent = [int(begin.max()) + 1 for begin in begins]
    tiles = [_tile(buffer, use) for use in uses]
    shape = [size + max(int(tile[n].max()) for tile in tiles) for n, size in enumerate(extent)]
    if math.prod(shape) > MAX_POINTS or any(begin.min() < 0 for begin in begins):
        raise _no_owner(buffer)
    owners = np.full(math.prod(shape), -1)
    first = np.stack(list(begins))
    numbers = np.arange(first.shape[1]).reshape(-1, 1)
    for tile in tiles:
        places = tuple(first[:, :, None] + tile[:, None, :])
        elements = np.ravel_multi_index(places, shape)
        who = np.broadcast_to(numbers, elements.shape)
        unowned = owners[elements] < 0
        owners[elements[unowned]] = who[unowned]
        if (owners[elements] != who).any():
            raise _no_owner(buffer)


def _tile(buffer: Buffer, use: _Use) -> Places:
    """The places of a thread's elements that loops decide: a row for each dimension."""
    rests = [_split(index, use.loops)[1] for index in use.indices]
    used = {var for rest in rests for var in free_vars(rest)}
    loops = [loop for loop in use.loops if loop.var in used]
    shape = tuple(loop.extent for loop in loops)
    if math.prod(shape) > MAX_POINTS or any(map(loads, rests)):
        raise _no_owner(buffer)
    env: dict[Var, Any] = dict(
        zip([loop.var for loop in loops], np.indices(shape, np.int64), strict=True)
    )
    rows = [np.asarray(evaluate(rest, env, no_load), np.int64) for rest in rests]
    return np.unique(np.stack([np.broadcast_to(row, shape).reshape(-1) for row in rows]), axis=1)


def _split(index: Expr, loops: Sequence[For]) -> tuple[Expr, Expr]:
    """The part of an index that the thread decides, and the rest."""
    threads = {loop.var for loop in loops if loop.kind in THREAD_AXES}
    form = linear(index)
    parts = form.split(threads)
    if parts is None:
        return index, IntImm(0)
    own, rest = parts
    return own.expr(), rest.expr()


def _values(own: Expr, loops: Sequence[For], threads: Threads) -> Places:
    """Its value in every thread."""
    env: dict[Var, Any] = {
        loop.var: threads.coordinate(loop.kind) for loop in loops if loop.kind in THREAD_AXES
    }
    if any(var not in env for var in free_vars(own)) or loads(own):
        raise UnsupportedError(
            "code for GPUs must index fragments by sums of what the thread decides and what its "
            "loops decide; split the loops so that they are"
        )
    return np.broadcast_to(np.asarray(evaluate(own, env, no_load), np.int64), threads.count)


def _no_owner(buffer: Buffer) -> UnsupportedError:
    return UnsupportedError(
        "code for GPUs must give each element of a fragment to one thread, the same wherever it "
        f"is used, and those of {buffer.name!r} have none; split and bind the loops around its "
        "blocks alike, or keep it in shared memory"
    )


def _lowered(stmt: Stmt, known: Mapping[Buffer, _Local], loops: tuple[For, ...]) -> Stmt:
    def moved(expr: Expr) -> Expr:
        def visit(node: Expr) -> Expr | None:
            if isinstance(node, Load) and node.buffer in known:
                local = known[node.buffer]
                return Load(local.buffer, local.indices(node.indices, loops))
            return None

        return rewrite(expr, visit)

    match stmt:
        case For(_, _, body):
            return replace(stmt, body=_lowered(body, known, (*loops, stmt)))
        case Allocate(allocations, body):
            kept = tuple(_allocation(item, known) for item in allocations)
            return Allocate(kept, _lowered(body, known, loops))
        case BufferStore(buffer, indices, value) if buffer in known:
            local = known[buffer]
            return BufferStore(local.buffer, local.indices(indices, loops), moved(value))
    return rebuilt(stmt, moved, lambda part: _lowered(part, known, loops))


def _allocation(item: Allocation, known: Mapping[Buffer, _Local]) -> Allocation:
    local = known.get(item.buffer)
    if local is None:
        return item
    window = tuple(Range(IntImm(0), extent) for extent in local.buffer.shape)
    return Allocation(local.buffer, window, item.annotations)
