"""`prefetched`: what a kernel multiplies by next is fetched while it multiplies.

The weights of a register tile are read again for each of T tiles of pixels. For the first of these
they come from memory, and the sums wait. So each iteration of a reduction fetches lines of the
weights that follow: of one of the vectors at the same place, another one for each tile::

    for tile in 160 parallel:                     16 tiles of weights for each of T = 10 of pixels
        for k in 512:
            prefetch w[min(tile + 10, 159) // 10 * 4 + min(tile % 10, 3), k, 0]
            for n in 5 unroll, b in 4 unroll, o in 16 vectorize:
                r[n, b, o] = r[n, b, o] + x[...] * w[tile // 10 * 4 + b, k, o]
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from daedal.compiler.codegen.llvm.scalars import ELEMENT_BYTES
from daedal.compiler.ops.cpu.reuse import LINE_BYTES
from daedal.compiler.tir.expr import Binary, Expr, IntImm, Load, Var, minimum
from daedal.compiler.tir.linear import accessed_element, simplify
from daedal.compiler.tir.lower import lower, mark_lowered
from daedal.compiler.tir.lower.rebuild import flat_seq, rebuilt
from daedal.compiler.tir.stmt import BufferStore, For, Prefetch, PrimFunc, Stmt
from daedal.compiler.tir.tile_products import tile_operation
from daedal.compiler.tir.visit import free_vars, loads, rewrite, substitute, walk

__all__ = ["comes_from_memory", "prefetched"]

LEAST_BYTES = 1 << 18
"""Of a tensor: fewer stay in the cache."""
MOST_TILES = 64
"""Of pixels: where there are more, the first one takes a small part of the time."""


def prefetched(func: PrimFunc) -> PrimFunc:
    """A function of register tiles as plain loops, which fetch ahead where that pays."""
    lowered = lower(func)
    outer = lowered.body
    if not isinstance(outer, For) or outer.kind != "parallel":
        return func
    found = _Reduction.within(outer.body)
    lines = [] if found is None else list(found.lines(outer))
    if found is None or not lines:
        return func

    def visit(stmt: Stmt, extents: Mapping[Var, int]) -> Stmt:
        if isinstance(stmt, For):
            extents = {**extents, stmt.var: stmt.extent}
        if stmt is found.loop:
            simple = [_simplified(line, extents) for line in lines]
            return replace(found.loop, body=flat_seq([*simple, found.loop.body]))
        return rebuilt(stmt, lambda expr: expr, lambda part: visit(part, extents))

    return mark_lowered(replace(lowered, body=visit(outer, {})))


def _simplified(line: Prefetch, extents: Mapping[Var, int]) -> Prefetch:
    return replace(line, indices=tuple(simplify(index, extents) for index in line.indices))


def comes_from_memory(load: Load) -> bool:
    """Whether the buffer is too large to have stayed in the cache."""
    return math.prod(load.buffer.shape) * ELEMENT_BYTES[load.dtype] >= LEAST_BYTES


class _Reduction:
    """The innermost loop of a reduction, and the unrolled loops and the lanes in it."""

    def __init__(self, loop: For, inner: Sequence[For], store: BufferStore) -> None:
        self.loop = loop
        self._is_product = any(map(tile_operation, inner))
        if self._is_product:  # of matrices: along its columns weights follow each other
            *others, columns, terms = inner
            inner = (*others, terms, columns)
        self._inner = inner
        self._store = store

    @staticmethod
    def within(stmt: Stmt) -> "_Reduction | None":
        """The first one in `stmt`."""
        found: list[_Reduction] = []

        def visit(part: Stmt) -> Stmt:
            if tile_operation(part) is not None:
                return part
            if isinstance(part, For) and not _is_inside(part):
                inner, store = list[For](), part.body
                while isinstance(store, For) and _is_inside(store, inner):
                    inner.append(store)
                    store = store.body
                if isinstance(store, BufferStore) and _accumulates(store):
                    found.append(_Reduction(part, inner, store))
            return rebuilt(part, lambda expr: expr, visit)

        visit(stmt)
        return found[0] if found else None

    def lines(self, tiles: For) -> Iterator[Prefetch]:
        """What an iteration fetches; nothing where it does not pay."""
        for load in loads(self._store.value):
            count = self._pixel_tiles(load, tiles)
            if count is not None and 1 < count <= MOST_TILES and comes_from_memory(load):
                yield from self._lines(load, tiles, count)
                return

    def _pixel_tiles(self, load: Load, tiles: For) -> int | None:
        """For how many iterations of `tiles` the same vectors are loaded, one after the other; None
        where it is no vector, or another one each time."""
        lane = self._inner[-1]
        is_vector = self._is_product or lane.kind == "vectorize"
        if not is_vector or _step(load, lane.var) < 1:
            return None
        divided = [
            node
            for index in load.indices
            for node in walk(index)
            if isinstance(node, Binary) and node.op == "//" and node.a is tiles.var
        ]
        sizes = {node.b.value for node in divided if isinstance(node.b, IntImm)}
        if not sizes or any(size % min(sizes) for size in sizes):
            return None

        def without(node: Expr) -> Expr | None:
            return IntImm(0) if node in divided else None

        used = {var for index in load.indices for var in free_vars(rewrite(index, without))}
        return None if tiles.var in used else min(sizes)

    def _lines(self, load: Load, tiles: For, count: int) -> Iterator[Prefetch]:
        *several, lane = (loop for loop in self._inner if _step(load, loop.var))
        step = _step(load, lane.var)
        per_line = max(1, LINE_BYTES // (step * ELEMENT_BYTES[load.dtype]))
        digits = [(loop.var, loop.extent, 1) for loop in several]
        digits.append((lane.var, -(-lane.extent // per_line), per_line))
        total = math.prod(extent for _, extent, _ in digits)
        each = -(-total // count)
        following: Expr = minimum(tiles.var + count, IntImm(tiles.extent - 1))
        for part in range(each):
            number = minimum(tiles.var % count * each + part, IntImm(total - 1))
            values: dict[Var, Expr] = {loop.var: IntImm(0) for loop in self._inner}
            values[tiles.var] = following
            for var, extent, factor in reversed(digits):
                values[var] = number % extent * factor
                number = number // extent
            yield Prefetch(load.buffer, tuple(substitute(index, values) for index in load.indices))


def _is_inside(loop: For, outer: Sequence[For] = ()) -> bool:
    """Whether a loop is a part of a register tile, or of a product of matrices, within `outer`."""
    if any(map(tile_operation, (*outer, loop))):
        return True
    return loop.kind in ("unroll", "vectorize") or loop.extent == 1


def _accumulates(store: BufferStore) -> bool:
    return any(load.buffer is store.buffer for load in loads(store.value))


def _step(load: Load, var: Var) -> int:
    """By how many elements a place moves along `var`."""
    return accessed_element(load).coefficient(var)
