"""Loops of kernels whose schedules are written as such: plain ones, without blocks."""

from collections.abc import Callable, Sequence

from daedal.compiler.tir.expr import Buffer, Expr, ExprLike, IntImm, Load, Var, as_expr
from daedal.compiler.tir.lower.rebuild import flat_seq
from daedal.compiler.tir.region import whole_window
from daedal.compiler.tir.stmt import Allocate, Allocation, BufferStore, For, Stmt

__all__ = ["allocated", "digits", "first", "loop", "store", "unrolled", "vector"]


def loop(name: str, extent: int, body: Callable[[Var], Stmt], kind: str = "serial") -> Stmt:
    """``for name in extent``, with the statement that `body` gives for its variable."""
    var = Var(name)
    return For(var, extent, body(var), kind)


def vector(extent: int, body: Callable[[Var], Stmt]) -> Stmt:
    """A loop whose elements follow each other in memory, and are accessed together."""
    return loop("lane", extent, body, "vectorize")


def unrolled(name: str, extent: int, body: Callable[[Var], Stmt]) -> Stmt:
    """A loop without branches, whose buffers can be in registers."""
    return loop(name, extent, body, "unroll")


def store(buffer: Buffer, indices: Sequence[ExprLike], value: Expr) -> Stmt:
    """``buffer[indices] = value``."""
    return BufferStore(buffer, tuple(as_expr(index) for index in indices), value)


def allocated(buffers: Sequence[Buffer], *body: Stmt) -> Stmt:
    """Statements with buffers of their own."""
    found = tuple(Allocation(buffer, whole_window(buffer)) for buffer in buffers)
    return Allocate(found, flat_seq(list(body)))


def first(buffer: Buffer) -> Expr:
    """The only element of a buffer."""
    return Load(buffer, (IntImm(0),))


def digits(number: Expr, extents: Sequence[int]) -> list[Expr]:
    """The indices of an element by its number."""
    found: list[Expr] = []
    for position, extent in reversed(list(enumerate(extents))):
        found.append(number % extent if position else number)
        number = number // extent
    return [
        index if extent > 1 else IntImm(0)
        for index, extent in zip(found[::-1], extents, strict=True)
    ]
