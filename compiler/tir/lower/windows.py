"""Step 3: allocated buffers become as large as their windows, and indices relative to these."""

from collections.abc import Mapping
from dataclasses import replace

from daedal.compiler.tir.expr import Buffer, Expr, IntImm, Load, Var
from daedal.compiler.tir.linear import simplify
from daedal.compiler.tir.lower.rebuild import rebuilt
from daedal.compiler.tir.stmt import (
    Allocate,
    Allocation,
    BufferStore,
    For,
    PrimFunc,
    Range,
    Stmt,
)
from daedal.compiler.tir.visit import rewrite

__all__ = ["lower_windows"]

Windows = Mapping[Buffer, tuple[Buffer, tuple[Range, ...]]]
"""Of each allocated buffer: the small one, and where it begins."""


def lower_windows(func: PrimFunc) -> PrimFunc:
    """`func` with every allocation as large as its window."""
    return replace(func, body=_lowered(func.body, {}, {}))


def _lowered(stmt: Stmt, windows: Windows, extents: Mapping[Var, int]) -> Stmt:
    match stmt:
        case For(var, extent, body):
            return replace(stmt, body=_lowered(body, windows, {**extents, var: extent}))
        case Allocate(allocations, body):
            inner, small = dict(windows), []
            for item in allocations:
                buffer = Buffer(item.buffer.name, item.shape, item.buffer.dtype, item.buffer.scope)
                window = tuple(Range(IntImm(0), extent) for extent in item.shape)
                small.append(Allocation(buffer, window, item.annotations))
                inner[item.buffer] = buffer, item.window
            return Allocate(tuple(small), _lowered(body, inner, extents))
        case BufferStore(buffer, indices, value) if buffer in windows:
            indices = tuple(_moved(index, windows, extents) for index in indices)
            buffer, indices = _inside(buffer, indices, windows, extents)
            return BufferStore(buffer, indices, _moved(value, windows, extents))
    return rebuilt(
        stmt,
        lambda expr: _moved(expr, windows, extents),
        lambda part: _lowered(part, windows, extents),
    )


def _moved(expr: Expr, windows: Windows, extents: Mapping[Var, int]) -> Expr:
    def visit(node: Expr) -> Expr | None:
        if isinstance(node, Load) and node.buffer in windows:
            return Load(*_inside(node.buffer, node.indices, windows, extents))
        return None

    return rewrite(expr, visit)


def _inside(
    buffer: Buffer, indices: tuple[Expr, ...], windows: Windows, extents: Mapping[Var, int]
) -> tuple[Buffer, tuple[Expr, ...]]:
    small, window = windows[buffer]
    relative = (
        simplify(index - part.min, extents) for index, part in zip(indices, window, strict=True)
    )
    return small, tuple(relative)
