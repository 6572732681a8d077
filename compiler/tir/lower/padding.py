"""Step 2: a read that may reach outside becomes a choice between the pad value and an element.

``x.padded(0)[i - 1]`` => ``select(i - 1 >= 0, x[max(i - 1, 0)], 0)``

Both sides of a choice may be evaluated, so the index is clamped. A bound that the loops around
already keep is not compared.
"""

from collections.abc import Mapping
from dataclasses import replace

from daedal.compiler.tir.condition import all_of
from daedal.compiler.tir.expr import Expr, Load, Select, Var, as_expr, maximum, minimum
from daedal.compiler.tir.linear import bounds
from daedal.compiler.tir.lower.rebuild import rebuilt
from daedal.compiler.tir.stmt import For, PrimFunc, Stmt
from daedal.compiler.tir.visit import rewrite

__all__ = ["lower_padding"]


def lower_padding(func: PrimFunc) -> PrimFunc:
    """`func` with reads inside buffers only."""
    return replace(func, body=_lowered(func.body, {}))


def _lowered(stmt: Stmt, extents: Mapping[Var, int]) -> Stmt:
    if isinstance(stmt, For):
        return replace(stmt, body=_lowered(stmt.body, {**extents, stmt.var: stmt.extent}))
    return rebuilt(
        stmt,
        lambda expr: rewrite(expr, lambda node: _chosen(node, extents)),
        lambda part: _lowered(part, extents),
    )


def _chosen(node: Expr, extents: Mapping[Var, int]) -> Expr | None:
    if not isinstance(node, Load) or node.pad_value is None:
        return None
    conditions, indices = [], []
    for index, size in zip(node.indices, node.buffer.shape, strict=True):
        limits = bounds(index, extents)
        if limits is None or limits[0] < 0:
            conditions.append(index >= 0)
            index = maximum(index, 0)
        if limits is None or limits[1] >= size:
            conditions.append(index < size)
            index = minimum(index, size - 1)
        indices.append(index)
    inside = all_of(conditions)
    element = Load(node.buffer, tuple(indices))
    if inside is None:
        return element
    return Select(inside, element, as_expr(node.pad_value, node.buffer.dtype))
