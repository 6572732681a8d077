"""`counts_box`: whether index expressions visit every point of a box once, found digit by digit.

    i = b // 64 * 64 + t // 16 * 8 + r,   j = b % 64 * 32 + t % 16 * 2 + c

Loops that no term joins are independent: `b`, `t`, `r` and `c` here. Each moves the point over a
grid: `t` over multiples of 8 along i and of 2 along j. If these grids fit together along each axis
like the digits of a number, all points of the box are visited, each once. Grids are enumerated one
by one, so the box may be as large as it likes.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from daedal.compiler.tir.evaluate import evaluate
from daedal.compiler.tir.expr import Axis, Expr, Load, Var
from daedal.compiler.tir.linear import Linear, linear, simplify
from daedal.compiler.tir.visit import free_vars, walk

__all__ = ["counts_box"]

MAX_POINTS = 1 << 20
"""Of one grid."""

Column = npt.NDArray[np.int64]


def counts_box(axes: Sequence[Axis], values: Sequence[Expr], extents: Mapping[Var, int]) -> bool:
    """Whether `values` visit each point of a box within the domains of `axes` once; False, too,
    where this is not found."""
    forms = [linear(simplify(value, extents)) for value in values]
    if any(isinstance(node, Load) for form in forms for node in walk(form.expr())):
        return False
    digits: list[list[tuple[int, int]]] = [[] for _ in values]
    low = [form.constant for form in forms]
    high = list(low)
    for variables in _independent(forms):
        grid = _grid(forms, variables, extents)
        if grid is None:
            return False
        for dim, (first, step, count) in enumerate(grid):
            low[dim] += first
            high[dim] += first + step * (count - 1)
            if count > 1:
                digits[dim].append((step, count))
    inside = all(
        first >= 0 and last < axis.extent for axis, first, last in zip(axes, low, high, strict=True)
    )
    return inside and all(map(_fit, digits))


def _fit(digits: Sequence[tuple[int, int]]) -> bool:
    """Whether steps and counts are those of a number with several digits."""
    wanted = 1
    for step, count in sorted(digits):
        if step != wanted:
            return False
        wanted *= count
    return True


def _independent(forms: Sequence[Linear]) -> list[set[Var]]:
    """The variables, together if a term has several of them."""
    groups: list[set[Var]] = []
    for form in forms:
        for term, _ in form.terms:
            joined = set(free_vars(term))
            apart = [group for group in groups if not group & joined]
            joined = joined.union(*(group for group in groups if group & joined))
            groups = [*apart, joined]
    return groups


def _grid(
    forms: Sequence[Linear], variables: set[Var], extents: Mapping[Var, int]
) -> list[tuple[int, int, int]] | None:
    """The first value, the step and the count along each axis that some variables move a point
    over; None where they visit no whole grid, or a point of it twice."""
    order = sorted(variables, key=lambda var: var.name)
    sizes = [extents[var] for var in order]
    count = math.prod(sizes)
    if count > MAX_POINTS:
        return None
    env: dict[Var, Any] = dict(
        zip(order, np.indices(sizes, np.int64).reshape(len(sizes), count), strict=True)
    )
    found, key, points = [], np.zeros(count, np.int64), 1
    for form in forms:
        column = _column(form, variables, env, count)
        distinct, place = np.unique(column, return_inverse=True)
        steps = np.unique(np.diff(distinct))
        if len(steps) > 1:
            return None
        step = int(steps[0]) if len(steps) else 0
        found.append((int(distinct[0]), step, len(distinct)))
        key = key * len(distinct) + place.reshape(-1)
        points *= len(distinct)
    return found if points == count and (np.bincount(key) == 1).all() else None


def _column(form: Linear, variables: set[Var], env: Mapping[Var, Any], count: int) -> Column:
    """What some variables add to a value, at each of their points."""
    total = np.zeros(count, np.int64)
    for term, factor in form.terms:
        if variables.issuperset(free_vars(term)):
            total += factor * np.asarray(evaluate(term, env, _no_read), np.int64)
    return total


def _no_read(load: Load, _indices: Any) -> Any:
    raise AssertionError(f"{load} was looked for")
