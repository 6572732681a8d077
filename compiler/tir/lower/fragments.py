"""Fragments: tiles of a block of threads, whose elements lie in the registers of their threads.

    alloc f: float32[8, 4] in fragment             alloc f: float32[1, 4] in local
    for t in 8 thread.x, j in 4:                   for t in 8 thread.x, j in 4:
        f[t, j] = 0                                    f[0, j] = 0
    for k in 3:                             =>     for k in 3:
        for t in 8 thread.x, j in 4:                   for t in 8 thread.x, j in 4:
            f[t, j] = f[t, j] + x[k, t, j]                 f[0, j] = f[0, j] + x[k, t, j]

Each index is the sum of a part that the thread decides and one that its loops decide, and the first
is the same wherever the fragment is used. An element belongs to one thread. What is `local` then
lives as long as the fragment did, in each thread.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from daedal.common.errors import UnsupportedError
from daedal.compiler.tir.evaluate import evaluate
from daedal.compiler.tir.expr import Buffer, Expr, IntImm, Load, Var
from daedal.compiler.tir.linear import linear
from daedal.compiler.tir.lower.rebuild import rebuilt
from daedal.compiler.tir.lower.threads import THREAD_AXES, Threads
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

Places = npt.NDArray[np.int64]


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


def _local(buffer: Buffer, uses: Sequence[_Use], threads: Threads) -> Buffer:
    """What each thread has of a fragment."""
    wanted: list[Places] | None = None
    shape = [1] * len(buffer.shape)
    for use in uses:
        extents = {loop.var: loop.extent for loop in use.loops}
        begins = []
        for dimension, index in enumerate(use.indices):
            own, rest = _split(index, use.loops)
            begins.append(_values(own, use.loops, threads))
            limits = linear(rest).bounds(extents)
            if limits is None or limits[0] < 0:
                raise _no_owner(buffer)
            shape[dimension] = max(shape[dimension], limits[1] + 1)
        if wanted is None:
            wanted = begins
        elif any((a != b).any() for a, b in zip(wanted, begins, strict=True)):
            raise _no_owner(buffer)
    assert wanted is not None
    _check_owners(buffer, wanted, shape)
    return Buffer(buffer.name, tuple(shape), buffer.dtype, "local")


def _check_owners(buffer: Buffer, begins: Sequence[Places], shape: Sequence[int]) -> None:
    """Each element is in the box of one thread."""
    corners = np.stack(list(begins), axis=1)
    boxes = {tuple(corner) for corner in corners.tolist()}
    fits = len(boxes) == len(corners)
    # Boxes on one grid do not overlap; others are looked at in pairs.
    if fits and any((corner % size).any() for corner, size in zip(corners.T, shape, strict=True)):
        pairs = itertools.combinations(corners, 2)
        fits = all((np.abs(a - b) >= np.asarray(shape)).any() for a, b in pairs)
    if not fits:
        raise _no_owner(buffer)


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
    return np.broadcast_to(np.asarray(evaluate(own, env, _no_load), np.int64), threads.count)


def _no_load(load: Load, _indices: Any) -> Any:
    raise AssertionError(f"{load} is known only when it runs")


def _no_owner(buffer: Buffer) -> UnsupportedError:
    return UnsupportedError(
        "code for GPUs must give each element of a fragment to one thread, the same wherever it "
        f"is used, and those of {buffer.name!r} have none; split and bind the loops around its "
        "blocks alike, or keep it in shared memory"
    )


def _lowered(stmt: Stmt, known: Mapping[Buffer, Buffer], loops: tuple[For, ...]) -> Stmt:
    def moved(expr: Expr) -> Expr:
        def visit(node: Expr) -> Expr | None:
            if isinstance(node, Load) and node.buffer in known:
                return Load(known[node.buffer], _rest(node.indices, loops))
            return None

        return rewrite(expr, visit)

    match stmt:
        case For(_, _, body):
            return replace(stmt, body=_lowered(body, known, (*loops, stmt)))
        case Allocate(allocations, body):
            kept = tuple(_allocation(item, known) for item in allocations)
            return Allocate(kept, _lowered(body, known, loops))
        case BufferStore(buffer, indices, value) if buffer in known:
            return BufferStore(known[buffer], _rest(indices, loops), moved(value))
    return rebuilt(stmt, moved, lambda part: _lowered(part, known, loops))


def _rest(indices: Sequence[Expr], loops: Sequence[For]) -> tuple[Expr, ...]:
    return tuple(_split(index, loops)[1] for index in indices)


def _allocation(item: Allocation, known: Mapping[Buffer, Buffer]) -> Allocation:
    buffer = known.get(item.buffer)
    if buffer is None:
        return item
    window = tuple(Range(IntImm(0), extent) for extent in buffer.shape)
    return Allocation(buffer, window, item.annotations)
