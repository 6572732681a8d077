"""Splits loops where the condition of a select in an index changes, so that it becomes constant.

Input: index expressions with constant outer loops, and ranges of the other loops. Output: where to
split, and expressions without the selects whose condition is constant over the ranges.
"""

from collections.abc import Iterator, Mapping

from daedal.compiler.tir.expr import Compare, Expr, Select, Var
from daedal.compiler.tir.linear import linear
from daedal.compiler.tir.visit import rewrite

__all__ = ["decided", "first_cut"]

Ranges = Mapping[Var, range]


def first_cut(expr: Expr, ranges: Ranges) -> tuple[Var, int] | None:
    """A loop and its first iteration that takes the other side of a select; None if no condition
    depends on a single loop."""
    for condition in _conditions(expr):
        term = _single(condition)
        if term is None:
            continue
        var, factor, constant = term
        values = ranges[var]
        # factor * v + constant < 0 holds below, or for a negative factor from this value on.
        value = -(constant // factor) if factor > 0 else constant // -factor + 1
        if values.start < value < values.stop:
            return var, value
    return None


def decided(expr: Expr, ranges: Ranges) -> Expr:
    """`expr` with every select whose condition is constant over `ranges` replaced by its value."""

    def visit(node: Expr) -> Expr | None:
        if not isinstance(node, Select) or not isinstance(node.condition, Compare):
            return None
        limits = _limits(node.condition, ranges)
        if limits is None or not (limits[1] < 0 or limits[0] >= 0):
            return None
        below = limits[1] < 0
        return node.true if below == (node.condition.op == "<") else node.false

    return rewrite(expr, visit)


def _conditions(expr: Expr) -> Iterator[Compare]:
    if isinstance(expr, Select):
        if isinstance(expr.condition, Compare) and expr.condition.op in ("<", ">="):
            yield expr.condition
        yield from _conditions(expr.true)
        yield from _conditions(expr.false)
        return
    for term, _ in linear(expr).terms:
        if term is not expr:
            yield from _conditions(term)


def _single(condition: Compare) -> tuple[Var, int, int] | None:
    """``factor * variable + constant``, which the condition compares with 0."""
    form = linear(condition.a - condition.b)
    if len(form.terms) != 1 or not isinstance(form.terms[0][0], Var):
        return None
    ((var, factor),) = form.terms
    assert isinstance(var, Var)
    return var, factor, form.constant


def _limits(condition: Compare, ranges: Ranges) -> tuple[int, int] | None:
    if condition.op not in ("<", ">="):
        return None
    form = linear(condition.a - condition.b)
    if not form.terms:
        return form.constant, form.constant
    term = _single(condition)
    if term is None:
        return None
    var, factor, constant = term
    ends = (ranges[var][0] * factor + constant, ranges[var][-1] * factor + constant)
    return min(ends), max(ends)
