"""`next_row_prefetched`: the next row is fetched while this one is computed.

A softmax reads a row from memory for its maximum; then it computes, for as long as a row takes to
come. Processors fetch ahead by themselves, but within a page, which may be no longer than a row::

    for i in 1024 parallel:
        for k in 16 ...: m[...] = max(m[...], x[i, k * 64 + ...])
        for j in 64:
            prefetch x[min(i + 1, 1023), j * 16]
            for l in 16 vectorize: e[j * 16 + l] = exp(x[i, j * 16 + l] - m[0])
        for k in 16 ...: s[...] = s[...] + e[k * 64 + ...]
        for j in 1024 vectorize: y[i, j] = e[j] / s[0]
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from daedal.compiler.codegen.llvm.scalars import ELEMENT_BYTES
from daedal.compiler.codegen.llvm.statements import LANES, MOST_LANES
from daedal.compiler.ops.cpu.prefetch import comes_from_memory
from daedal.compiler.ops.cpu.reuse import LINE_BYTES
from daedal.compiler.tir.expr import Expr, IntImm, Load, Var, minimum
from daedal.compiler.tir.linear import linear
from daedal.compiler.tir.lower import lower
from daedal.compiler.tir.lower.rebuild import flat_seq, rebuilt
from daedal.compiler.tir.stmt import BufferStore, For, Prefetch, PrimFunc, Stmt
from daedal.compiler.tir.visit import free_vars, loads, substitute

__all__ = ["next_row_prefetched"]

LEAST_BYTES, MOST_BYTES = 1 << 10, 1 << 14
"""Of a row: a quarter of a page, and a third of the nearest cache."""


def next_row_prefetched(func: PrimFunc) -> PrimFunc:
    """A function of rows as plain loops, which fetch ahead where that pays.

    The row that the first loops read is fetched by the next ones that go over elements. The last
    ones fetch nothing: they store in memory, which takes as long.
    """
    lowered = lower(func)
    rows = lowered.body
    if not isinstance(rows, For) or rows.kind != "parallel":
        return func
    first, *behind = (nest for nest in _nests(rows.body) if loads(nest.store.value))
    target = next((nest.loops[-1] for nest in behind[:-1] if nest.is_long), None)
    if target is None:
        return func
    for load in loads(first.store.value):
        size = target.extent * ELEMENT_BYTES[load.dtype]
        is_row = load.buffer in lowered.inputs and first.reads_row(load, rows)
        if is_row and comes_from_memory(load) and LEAST_BYTES <= size <= MOST_BYTES:
            start = Load(load.buffer, tuple(first.at_start(index) for index in load.indices))
            return replace(lowered, body=_fetching(rows, target, start))
    return func


@dataclass(frozen=True)
class _Nest:
    """Loops around a statement that stores, outermost first."""

    loops: tuple[For, ...]
    store: BufferStore

    @property
    def is_long(self) -> bool:
        """Whether the innermost loop goes over the elements of a row, more than one vector."""
        return self.loops[-1].kind == "vectorize" and self.loops[-1].extent > MOST_LANES

    def reads_row(self, load: Load, rows: For) -> bool:
        """Whether the load's lanes lie side by side in memory, elsewhere for each of `rows`."""
        *outer, last = load.indices
        lane = linear(last).coefficient(self.loops[-1].var)
        moves = any(rows.var in free_vars(index) for index in outer)
        return load.pad_value is None and moves and lane == 1

    def at_start(self, index: Expr) -> Expr:
        """An index where all loops begin."""
        return substitute(index, {loop.var: IntImm(0) for loop in self.loops})


def _nests(stmt: Stmt) -> Sequence[_Nest]:
    found: list[_Nest] = []

    def visit(part: Stmt, loops: tuple[For, ...] = ()) -> Stmt:
        if isinstance(part, BufferStore) and loops:
            found.append(_Nest(loops, part))
        around = (*loops, part) if isinstance(part, For) else loops
        return rebuilt(part, lambda expr: expr, lambda inner: visit(inner, around))

    visit(stmt)
    return found


def _fetching(rows: For, target: For, start: Load) -> Stmt:
    """`rows`, where `target` fetches the next row, whose first element is `start`."""
    vectors, rest = divmod(target.extent, LANES)
    vector = Var(f"{target.var.name}_0")
    *outer, last = (
        substitute(index, {rows.var: minimum(rows.var + 1, IntImm(rows.extent - 1))})
        for index in start.indices
    )
    size = ELEMENT_BYTES[start.dtype]
    fetches = [
        Prefetch(start.buffer, (*outer, last + vector * LANES + byte // size))
        for byte in range(0, LANES * size, LINE_BYTES)
    ]
    parts: list[Stmt] = [
        For(vector, vectors, flat_seq([*fetches, _lanes(target, vector * LANES, LANES)]))
    ]
    if rest:
        parts.append(_lanes(target, IntImm(vectors * LANES), rest))

    def visit(stmt: Stmt) -> Stmt:
        if stmt is target:
            return flat_seq(parts)
        return rebuilt(stmt, lambda expr: expr, visit)

    return visit(rows)


def _lanes(loop: For, first: Expr, count: int) -> For:
    """Iterations of `loop` from `first` on, as one vector."""
    lane = Var(f"{loop.var.name}_1")
    places: dict[Var, Expr] = {loop.var: first + lane}

    def visit(stmt: Stmt) -> Stmt:
        return rebuilt(stmt, lambda expr: substitute(expr, places), visit)

    return For(lane, count, visit(loop.body), "vectorize")
