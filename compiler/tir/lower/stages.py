"""Stages: copies to shared memory are begun some iterations before their elements are read.

    for k in 8:
        alloc s: float16[64] in shared {stages: 3}
        for t in 8 thread.x, v in 8:
            s[t * 8 + v] = x[k, t * 8 + v]
        for t in 8 thread.x:
            ... s[i] ...

    alloc s: float16[3, 64] in shared
    for stage in 2:
        for t in 8 thread.x, v in 8 {asynchronous: True}:
            s[stage, t * 8 + v] = x[stage, t * 8 + v]
        commit
    for k in 8:
        wait 1 for s[k % 3, 0:+64]
        for t in 8 thread.x:
            if k + 2 < 8:
                for v in 8 {asynchronous: True}:
                    s[(k + 2) % 3, t * 8 + v] = x[k + 2, t * 8 + v]
        commit
        for t in 8 thread.x:
            ... s[k % 3, i] ...

Each iteration commits one group, also where there is nothing left to copy, so that all waits count
alike. What is not staged stays in its place. The barriers follow from the accesses: one behind the
wait, which also orders the reads of a stage before the copies to it.

Products of groups of warps (`tir.warp_products`) go on while the next iteration begins:

    for k in 8:
        wait products 1
        wait 0 for s[k % 3, 0:+64] fenced
        ... copies of the iteration k + 1
        commit
        fence f
        ... products of s[k % 3, i], added to f
        commit products
    wait products 0 for f

Buffers with ``boxes`` are filled by copies of boxes (`boxes`), which the first thread begins, and
whose bytes are counted in shared memory:

    arrivals a
    for stage in 1:
        expect 128 at a[stage]
        for v in 64 {asynchronous: True, box: True}:
            s[stage, v] = x[stage, v]
    for k in 8:
        wait products 1
        wait boxes a[k % 3, k // 3] for s[k % 3, 0:+64]
        if k + 1 < 8:
            expect 128 at a[(k + 1) % 3]
            ... the copy of the iteration k + 1

The copies of an iteration replace what the one before the last has read, which is done: with three
stages, they are those of the next iteration only. Where nothing is replaced, nothing waits.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from daedal.common.errors import UnsupportedError
from daedal.compiler.tir.dtype import numpy_dtype
from daedal.compiler.tir.expr import Buffer, Expr, Load, Var
from daedal.compiler.tir.linear import simplify
from daedal.compiler.tir.lower.boxes import BOX, box_of
from daedal.compiler.tir.lower.chunks import ASYNCHRONOUS, chunk_of
from daedal.compiler.tir.lower.rebuild import flat_seq, rebuilt
from daedal.compiler.tir.lower.threads import accesses, has_threads, is_thread
from daedal.compiler.tir.region import whole_window
from daedal.compiler.tir.stmt import (
    Allocate,
    Allocation,
    BeginArrivals,
    BufferStore,
    CommitCopies,
    CommitProducts,
    ExpectBoxes,
    FenceSums,
    For,
    If,
    PrimFunc,
    Region,
    Seq,
    Stmt,
    WaitForBoxes,
    WaitForCopies,
    WaitForProducts,
)
from daedal.compiler.tir.visit import free_vars, rewrite, substitute
from daedal.compiler.tir.warp_products import product_at

__all__ = ["STAGES", "lower_stages"]

STAGES, BOXES = "stages", "boxes"
"""Annotations of an allocation: how many iterations have their own elements, and whether copies of
boxes fill it."""


def lower_stages(func: PrimFunc) -> PrimFunc:
    """A lowered function of one kernel, whose staged buffers are filled by asynchronous copies.

    Raises UnsupportedError where a buffer with stages is not filled by such copies, in a loop
    directly around it.
    """
    return replace(func, body=_lowered(func.body, func, {}))


def _lowered(stmt: Stmt, func: PrimFunc, extents: Mapping[Var, int]) -> Stmt:
    match stmt:
        case For(var, extent, body):
            inner = {**extents, var: extent}
            if isinstance(body, Allocate) and any(map(_is_staged, body.allocations)):
                return _pipeline(stmt, body, func, inner)
            if (product := product_at(stmt)) is not None and product.warps > 1:
                raise UnsupportedError(
                    "code for GPUs must fill the operands of products of groups of warps by "
                    f"asynchronous copies, and there are none around {product.name!r}; stage both"
                )
            return replace(stmt, body=_lowered(body, func, inner))
        case Allocate(allocations) if staged := next(filter(_is_staged, allocations), None):
            raise _refused(staged.buffer, "it must be allocated directly inside of a loop")
    return rebuilt(stmt, lambda expr: expr, lambda part: _lowered(part, func, extents))


def _is_staged(item: Allocation) -> bool:
    return STAGES in item.annotations


def _refused(buffer: Buffer, reason: str) -> UnsupportedError:
    return UnsupportedError(
        "code for GPUs must fill buffers with stages by asynchronous copies of whole rows, and "
        f"{buffer.name!r} has stages: {reason}; leave the stages out"
    )


@dataclass(frozen=True)
class _Ring:
    """Buffers with an additional dimension, the first one, for their stages; `arrivals` counts what
    copies of boxes bring to each stage."""

    buffers: Mapping[Buffer, Buffer]
    count: int
    arrivals: Buffer | None = None

    def at(self, stmt: Stmt, stage: Expr) -> Stmt:
        """A statement with the elements of one stage."""

        def element(node: Expr) -> Expr | None:
            if isinstance(node, Load) and node.buffer in self.buffers:
                return Load(self.buffers[node.buffer], (stage, *node.indices))
            return None

        def expression(expr: Expr) -> Expr:
            return rewrite(expr, element)

        def statement(part: Stmt) -> Stmt:
            part = rebuilt(part, expression, statement)
            if isinstance(part, BufferStore) and part.buffer in self.buffers:
                return replace(
                    part, buffer=self.buffers[part.buffer], indices=(stage, *part.indices)
                )
            return part

        return statement(stmt)


def _pipeline(loop: For, body: Allocate, func: PrimFunc, extents: Mapping[Var, int]) -> Stmt:
    """A loop whose copies run ahead, and those before it."""
    staged = [item for item in body.allocations if _is_staged(item)]
    others = tuple(item for item in body.allocations if not _is_staged(item))
    count = min(loop.extent, *(int(item.annotations[STAGES]) for item in staged))
    rest = {item.buffer: _without_stages(item) for item in staged}
    if loop.kind not in ("serial", "unroll"):
        raise _refused(staged[0].buffer, "the loop around it must be executed in order")
    if count < 2:
        plain = Allocate((*rest.values(), *others), body.body)
        return replace(loop, body=_lowered(plain, func, extents))
    if any(BOXES in item.annotations for item in staged) and not all(
        BOXES in item.annotations for item in staged
    ):
        raise _refused(staged[0].buffer, "all copies of a loop, or none, must be of boxes")
    ring = _Ring(
        {
            old: Buffer(old.name, (count, *item.shape), old.dtype, old.scope)
            for old, item in rest.items()
        },
        count,
        Buffer("arrived", (count,), "int64", "shared") if BOXES in staged[0].annotations else None,
    )
    parts = body.body.body if isinstance(body.body, Seq) else (body.body,)
    writes = [_written(part) & rest.keys() for part in parts]
    copies = [part for part, written in zip(parts, writes, strict=True) if written]
    used = [part for part, written in zip(parts, writes, strict=True) if not written]
    for buffer in rest:
        if not any(buffer in written for written in writes):
            raise _refused(buffer, "nothing in the loop around it writes it")
    if not used:
        raise _refused(staged[0].buffer, "nothing in the loop around it reads it")
    sums = _group_sums(used)
    ahead = count - 2 if sums is not None and count > 2 else count - 1
    begin = Var("stage")
    later = loop.var + ahead
    first, next_ones = (
        [_begun(part, ring, loop, number, condition, func, limits) for part in copies]
        for number, condition, limits in (
            (begin, None, None),
            (later, later < loop.extent, extents),
        )
    )
    if ring.arrivals is not None:
        size = sum(_bytes(item) for item in rest.values())
        stage = simplify(later % count, extents)
        first = [ExpectBoxes(ring.arrivals, begin, size), *first]
        condition = simplify(later < loop.extent, extents)
        parts_of_next = [ExpectBoxes(ring.arrivals, stage, size), *next_ones]
        next_ones = [If(condition, flat_seq(parts_of_next))]
    own = loop.var % count
    landed = tuple(
        Region(new, (replace(window[0], min=own, extent=1), *window[1:]))
        for new in ring.buffers.values()
        for window in [whole_window(new)]
    )
    commit = () if ring.arrivals is not None else (CommitCopies(),)
    inner: Stmt = flat_seq(
        [
            *(
                ()
                if sums is None or loop.extent == count
                else (WaitForProducts(count - 1 - ahead),)
            ),
            *_landed(ring, loop.var, ahead, landed, fenced=sums is not None),
            *next_ones,
            *commit,
            *_used([ring.at(part, own) for part in used], sums, func, extents),
        ]
    )
    if others:
        inner = Allocate(others, inner)
    filled: Stmt = For(begin, ahead, flat_seq([*first, *commit]))
    allocations = tuple(
        replace(rest[old], buffer=new, window=whole_window(new))
        for old, new in ring.buffers.items()
    )
    if ring.arrivals is not None:
        own_window = Allocation(ring.arrivals, whole_window(ring.arrivals))
        allocations = (*allocations, own_window)
        filled = flat_seq([BeginArrivals(ring.arrivals), filled])
    last = () if sums is None else (WaitForProducts(0, sums),)
    return Allocate(allocations, flat_seq([filled, replace(loop, body=inner), *last]))


def _landed(
    ring: _Ring, number: Var, ahead: int, regions: tuple[Region, ...], *, fenced: bool
) -> list[Stmt]:
    """The wait for what an iteration reads."""
    if ring.arrivals is None:
        return [WaitForCopies(ahead - 1, regions, fenced)]
    stage, turn = number % ring.count, number // ring.count
    return [WaitForBoxes(ring.arrivals, stage, turn, regions)]


def _bytes(item: Allocation) -> int:
    return math.prod(item.buffer.shape) * numpy_dtype(item.buffer.dtype).itemsize


def _used(
    parts: Sequence[Stmt], sums: Buffer | None, func: PrimFunc, extents: Mapping[Var, int]
) -> list[Stmt]:
    """What an iteration does with its copies; products of groups of warps are one group."""
    if sums is None:
        return [_lowered(part, func, extents) for part in parts]
    return [FenceSums(sums), *parts, CommitProducts()]


def _group_sums(parts: Sequence[Stmt]) -> Buffer | None:
    """What products of groups of warps add to; None where there are none."""
    for part in parts:
        match part:
            case For(_, _, body) | Allocate(_, body) | If(_, body):
                product = product_at(part)
                if product is not None and product.warps > 1:
                    return next(iter(_written(part)))
                inner = [body]
            case Seq(body):
                inner = list(body)
            case _:
                continue
        found = _group_sums(inner)
        if found is not None:
            return found
    return None


def _without_stages(item: Allocation) -> Allocation:
    kept = {key: value for key, value in item.annotations.items() if key != STAGES}
    return replace(item, annotations=kept)


def _written(stmt: Stmt) -> set[Buffer]:
    return {item.buffer for item in accesses(stmt) if item.is_write}


def _begun(
    copy: Stmt,
    ring: _Ring,
    loop: For,
    number: Expr,
    condition: Expr | None,
    func: PrimFunc,
    extents: Mapping[Var, int] | None = None,
) -> Stmt:
    """The asynchronous copies of the iteration `number`, under a condition."""
    stage = number if isinstance(number, Var) else number % ring.count
    limits = {**(extents or {}), loop.var: loop.extent}
    if isinstance(number, Var):
        limits[number] = ring.count - 1
    values: dict[Var, Expr] = {loop.var: number}

    def expression(expr: Expr) -> Expr:
        return simplify(substitute(expr, values), limits)

    def moved(stmt: Stmt) -> Stmt:
        return rebuilt(stmt, expression, moved)

    marked = _marked(copy, func) if ring.arrivals is None else _boxed(copy, func)
    renamed = _fresh(marked, values)
    if ring.arrivals is not None:
        return ring.at(moved(renamed), stage)
    return _guarded(ring.at(moved(renamed), stage), condition)


def _fresh(stmt: Stmt, values: dict[Var, Expr]) -> Stmt:
    """A copy of a statement with loop variables of its own; `values` gets them."""
    if isinstance(stmt, For):
        var = Var(stmt.var.name)
        values[stmt.var] = var
        return replace(stmt, var=var, body=_fresh(stmt.body, values))
    return rebuilt(stmt, lambda expr: expr, lambda part: _fresh(part, values))


def _marked(stmt: Stmt, func: PrimFunc) -> Stmt:
    """The loops of a copy, the innermost of each nest marked as one asynchronous copy."""
    if isinstance(stmt, For) and isinstance(stmt.body, If):
        condition, body = stmt.body.condition, stmt.body.body
        if isinstance(body, BufferStore) and stmt.var not in free_vars(condition):
            return If(condition, _marked(replace(stmt, body=body), func))
    if isinstance(stmt, For) and isinstance(stmt.body, BufferStore):
        chunk = chunk_of(stmt)
        if chunk is None:
            raise _refused(
                stmt.body.buffer,
                f"the {stmt.extent} elements of its innermost loop are not 4, 8 or 16 bytes that "
                "follow each other in both buffers",
            )
        if chunk.source.buffer not in func.inputs:
            raise _refused(chunk.buffer, "its elements must come from an input of the kernel")
        return replace(stmt, annotations={**stmt.annotations, ASYNCHRONOUS: True})
    if isinstance(stmt, BufferStore):
        raise _refused(stmt.buffer, "its innermost loop does more than to copy")
    return rebuilt(stmt, lambda expr: expr, lambda part: _marked(part, func))


def _boxed(stmt: Stmt, func: PrimFunc) -> Stmt:
    """The loops of a copy, marked as one of boxes."""
    if not isinstance(stmt, For) or has_threads(stmt):
        buffer = next(iter(_written(stmt)))
        raise _refused(buffer, "loops of a copy of boxes must be nested, and of no thread")
    box = box_of(stmt)
    if box is None or box.source.buffer not in func.inputs:
        buffer = next(iter(_written(stmt)))
        raise _refused(buffer, "its loops copy no box of an input of the kernel")
    return replace(stmt, annotations={**stmt.annotations, ASYNCHRONOUS: True, BOX: True})


def _guarded(stmt: Stmt, condition: Expr | None) -> Stmt:
    """A condition inside of the innermost loop along a thread axis."""
    if condition is None:
        return stmt
    if is_thread(stmt) and isinstance(stmt, For) and not has_threads(stmt.body):
        return replace(stmt, body=If(condition, stmt.body))
    return rebuilt(stmt, lambda expr: expr, lambda part: _guarded(part, condition))
