"""Constant boxes of tensorized blocks, once the loops around them are constants: what emission
needs.
"""

from collections.abc import Mapping

from daedal.compiler.tir.expr import Compare, Expr, IntImm, Var
from daedal.compiler.tir.linear import linear, simplify
from daedal.compiler.tir.region import conjuncts
from daedal.compiler.tir.stmt import BlockRealize, For, Region
from daedal.compiler.tir.visit import substitute

__all__ = ["Box", "concrete_boxes"]

Box = tuple[Region, list[tuple[int, int]]]
"""A region and its ``[low, high)`` bounds per dimension."""


def concrete_boxes(stmt: BlockRealize, env: Mapping[Var, int]) -> tuple[list[Box], list[Box]]:
    """Constant ``[low, high)`` boxes that a realized block reads and writes, clipped by inner
    predicates.

    `env` gives every loop variable around `stmt`. Inner loops are narrowed by the conditions
    ``affine < constant`` of the leaf block inside. Empty lists where a predicate leaves nothing.
    """
    values: dict[Var, Expr] = {var: IntImm(value) for var, value in env.items()}
    leaf, inner = stmt, dict[Var, tuple[int, int]]()
    while True:
        for condition in conjuncts(leaf.predicate):
            if not _narrow(simplify(substitute(condition, values)), inner):
                return [], []
        block = leaf.block
        for axis, value in zip(block.iter_vars, leaf.values, strict=True):
            values[axis] = simplify(substitute(value, values))
        body = block.body
        while isinstance(body, For):
            inner[body.var] = (0, body.extent)
            body = body.body
        if not isinstance(body, BlockRealize):
            break
        leaf = body

    def boxes(regions: tuple[Region, ...]) -> list[Box]:
        result = []
        for region in regions:
            box = []
            for part in region.ranges:
                low, high = _interval(substitute(part.min, values), inner)
                box.append((low, high + part.extent))
            result.append((region, box))
        return result

    return boxes(leaf.block.reads), boxes(leaf.block.writes)


def _interval(expr: Expr, ranges: Mapping[Var, tuple[int, int]]) -> tuple[int, int]:
    """Smallest and largest value of an affine expression over half-open variable ranges."""
    form = linear(expr)
    assert form is not None
    low = high = form.constant
    for term, factor in form.terms:
        assert isinstance(term, Var), "a tensorized block has affine regions"
        first, end = ranges[term]
        ends = (first * factor, (end - 1) * factor)
        low, high = low + min(ends), high + max(ends)
    return low, high


def _narrow(condition: Expr, ranges: dict[Var, tuple[int, int]]) -> bool:
    """Shrink the one variable that `condition` (``affine < bound`` or ``>= bound``) speaks of."""
    assert isinstance(condition, Compare) and condition.op in ("<", ">=")
    form = linear(condition.a - condition.b)
    assert form is not None
    if not form.terms:
        return form.constant < 0 if condition.op == "<" else form.constant >= 0
    assert len(form.terms) == 1, "a clip speaks of one inner loop"
    (var, factor), constant = form.terms[0], form.constant
    assert isinstance(var, Var) and factor == 1
    low, high = ranges[var]
    if condition.op == "<":
        high = min(high, -constant)
    else:
        low = max(low, -constant)
    ranges[var] = (low, high)
    return low < high
