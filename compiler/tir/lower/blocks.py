"""Step 1: blocks become their bodies, their predicates and inits conditions.

for i in 3:                              for i in 3:
    for k in 4:                              for k in 4:
        block c(vi = i, vk = k):     =>          if k == 0:
            init: c[vi] = 0                          c[i] = 0
            c[vi] = c[vi] + a[vi, vk]            c[i] = c[i] + a[i, k]
"""

from collections.abc import Mapping
from dataclasses import replace

from daedal.compiler.tir.condition import all_of, conjuncts
from daedal.compiler.tir.expr import Compare, Expr, IntImm, Var, eq
from daedal.compiler.tir.linear import bounds, simplify
from daedal.compiler.tir.lower.rebuild import flat_seq, rebuilt
from daedal.compiler.tir.stmt import Block, BlockRealize, For, If, PrimFunc, Stmt
from daedal.compiler.tir.tile_products import TILE_OPERATIONS
from daedal.compiler.tir.visit import substitute
from daedal.compiler.tir.warp_products import lane_loops, product_named

__all__ = ["lower_blocks"]


def lower_blocks(func: PrimFunc) -> PrimFunc:
    """`func` without blocks; index expressions are simplified by the extents of the loops."""
    return replace(func, body=_lowered(func.body, {}, {}))


def _lowered(stmt: Stmt, values: Mapping[Var, Expr], extents: Mapping[Var, int]) -> Stmt:
    match stmt:
        case For(var, extent, body):
            return replace(stmt, body=_lowered(body, values, {**extents, var: extent}))
        case BlockRealize():
            return _block(stmt, values, extents)
    return rebuilt(
        stmt,
        lambda expr: _value(expr, values, extents),
        lambda part: _lowered(part, values, extents),
    )


def _value(expr: Expr, values: Mapping[Var, Expr], extents: Mapping[Var, int]) -> Expr:
    return simplify(substitute(expr, values), extents)


def _block(realize: BlockRealize, outer: Mapping[Var, Expr], extents: Mapping[Var, int]) -> Stmt:
    block = realize.block
    values: dict[Var, Expr] = {
        axis: _value(value, outer, extents) for axis, value in realize.binding.items()
    }
    parts = []
    if block.init is not None:
        first = _first_instance(block, values, extents)
        init = _lowered(block.init, values, extents)
        parts.append(init if first is None else If(first, init))
    parts.append(_lowered(_in_lanes(block), values, extents))
    body = flat_seq(parts)
    conditions = [_value(item, outer, extents) for item in conjuncts(realize.predicate)]
    predicate = all_of([item for item in conditions if not _holds(item, extents)])
    return body if predicate is None else If(predicate, body)


def _in_lanes(block: Block) -> Stmt:
    """The body of a block; that of a product which a warp computes is under a loop of its threads.

    Around other bodies stand the loops of their threads already. An operation on tiles stays marked
    as the intrinsic.
    """
    intrin = block.annotations.get("intrin")
    if intrin in TILE_OPERATIONS:
        assert isinstance(block.body, For)
        return replace(block.body, annotations={"intrin": str(intrin)})
    product = product_named(intrin)
    if product is None:
        return block.body
    assert isinstance(block.body, For)
    return lane_loops(product, block.body)


def _first_instance(
    block: Block, values: Mapping[Var, Expr], extents: Mapping[Var, int]
) -> Expr | None:
    """Where all reduce variables are 0; None where they always are."""
    reduced = [values[axis] for axis in block.reduce_vars]
    return all_of([eq(value, 0) for value in reduced if bounds(value, extents) != (0, 0)])


def _holds(condition: Expr, extents: Mapping[Var, int]) -> bool:
    """Whether the loops around a comparison with a constant make it true."""
    match condition:
        case Compare("<", a, IntImm(limit)):
            found = bounds(a, extents)
            return found is not None and found[1] < limit
        case Compare(">=", a, IntImm(limit)):
            found = bounds(a, extents)
            return found is not None and found[0] >= limit
    return False
