"""Checks bindings digit by digit, or point by point if no formula covers them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from daedal.compiler.tir.condition import all_of, bounds_where, conjuncts, normal_condition
from daedal.compiler.tir.digits import counts_box
from daedal.compiler.tir.errors import InvalidIRError
from daedal.compiler.tir.evaluate import evaluate
from daedal.compiler.tir.expr import Axis, Expr, Var
from daedal.compiler.tir.linear import linear, simplify
from daedal.compiler.tir.printer import expr_text
from daedal.compiler.tir.region import conditions_of, relax
from daedal.compiler.tir.stmt import Block, BlockRealize, Range
from daedal.compiler.tir.visit import free_vars

__all__ = ["check_points"]

MAX_ENUMERATED = 1 << 22
"""Largest number of iterations of related loops that are listed."""

Column = npt.NDArray[np.int64]
"""A value at every point."""


class _Points:
    """Every iteration of some loops: those of fixed ones are slow, those of running ones fast."""

    def __init__(
        self, exprs: Sequence[Expr], running: Mapping[Var, int], extents: Mapping[Var, int]
    ) -> None:
        found = dict.fromkeys(var for expr in exprs for var in free_vars(expr))
        variables = sorted(found, key=lambda var: var in running)
        sizes = [extents[var] for var in variables]
        self.count = math.prod(sizes)
        if self.count > MAX_ENUMERATED:
            raise InvalidIRError("bindings are too entangled to check")
        self.num_fixed = math.prod(extents[var] for var in variables if var not in running)
        grid = np.indices(sizes).reshape(len(sizes), self.count)
        self.env = dict(zip(variables, grid, strict=True))

    def column(self, expr: Expr) -> Column:
        """The value of an index expression at every point."""
        return np.broadcast_to(np.asarray(evaluate(expr, self.env, _no_read)), (self.count,))

    def where(self, conditions: Sequence[Expr]) -> npt.NDArray[np.bool_]:
        """The points at which all conditions hold."""
        keep = np.ones(self.count, dtype=bool)
        for condition in conditions:
            keep &= self.column(condition).astype(bool)
        return keep

    def order(self, running: Mapping[Var, int]) -> Column:
        """When each point runs, among those of its iteration of the fixed loops."""
        when = np.zeros(self.count, dtype=np.int64)
        for var, extent in running.items():
            if var in self.env:
                when = when * extent + self.env[var]
        return when

    def per_entry(self, column: Column) -> Column:
        """The first of each iteration of the fixed loops."""
        return column[:: self.count // self.num_fixed]


def check_points(
    realize: BlockRealize,
    positions: Sequence[int],
    conditions: Sequence[Expr],
    running: Mapping[Var, int],
    extents: Mapping[Var, int],
) -> None:
    """Raise InvalidIRError unless some values fill their box in each iteration of the fixed loops.

    Parameters
    ----------
    positions
        Of the values among those of the block; no other one depends on their running loops.
    conditions
        Those on the running loops of these values.
    """
    values = [realize.values[position] for position in positions]
    axes = [realize.block.iter_vars[position] for position in positions]
    shown = ", ".join(f"{a.name} = {expr_text(v)}" for a, v in zip(axes, values, strict=True))
    where = f"{shown} (block {realize.block.name!r})"
    if all(var in running for condition in conditions for var in free_vars(condition)):
        realize = _of_one_iteration(realize, positions, conditions, running, extents)
        values = [realize.values[position] for position in positions]
    has_conditions = conditions or _guards(realize, values, running)
    if not has_conditions and counts_box(axes, values, extents):
        return
    guards = _guards(realize, values, running)
    try:
        points = _Points([*values, *conditions, *guards], running, extents)
    except InvalidIRError as error:
        raise InvalidIRError(f"{error}: {where}") from None
    entered = points.where(guards)
    keep = entered & points.where(conditions)
    columns = [points.column(value)[keep] for value in values]
    for axis, column in zip(axes, columns, strict=True):
        if column.size and (column.min() < 0 or column.max() >= axis.extent):
            raise InvalidIRError(
                f"bindings must stay within their domains, not {where}; a predicate is missing"
            )
    key = np.repeat(np.arange(points.num_fixed), points.count // points.num_fixed)[keep]
    if not _begins_with_init(realize.block, axes, columns, key, points.order(running)[keep]):
        raise InvalidIRError(
            f"a reduction must begin with its init: {shown} is elsewhere first "
            f"(block {realize.block.name!r})"
        )
    for axis, column in zip(axes, columns, strict=True):
        key = key * axis.extent + column
    key = np.sort(key, kind="stable")
    if (key[1:] == key[:-1]).any():
        raise InvalidIRError(
            f"bindings must be independent: {shown} takes a value twice "
            f"(block {realize.block.name!r})"
        )
    boxes = points.per_entry(_box_sizes(realize, positions, points, running, extents) * entered)
    if int(boxes.sum()) != key.size:
        raise InvalidIRError(
            f"bindings must cover a box: {shown} leaves gaps (block {realize.block.name!r})"
        )


def _begins_with_init(
    block: Block, axes: Sequence[Axis], columns: Sequence[Column], key: Column, when: Column
) -> bool:
    """Whether of the points that add to one element, the one with the init runs first.

    `key` has the iteration of the fixed loops of each point, `when` its order in that.
    """
    adds = [axis in block.reduce_vars for axis in axes]
    if block.init is None or all(adds) or not any(adds):
        return True  # the first of all points has the init
    starts = np.ones(key.size, dtype=bool)
    for axis, column, is_reduced in zip(axes, columns, adds, strict=True):
        if is_reduced:
            starts &= column == 0
        else:
            key = key * axis.extent + column
    order = np.lexsort((when, key))
    sorted_key, sorted_starts = key[order], starts[order]
    first = np.append(True, sorted_key[1:] != sorted_key[:-1]) if key.size else starts
    # Elements whose init runs in another iteration of the fixed loops are the flow's concern.
    return not (sorted_starts & ~first).any()


def _of_one_iteration(
    realize: BlockRealize,
    positions: Sequence[int],
    conditions: Sequence[Expr],
    running: Mapping[Var, int],
    extents: Mapping[Var, int],
) -> BlockRealize:
    """The same without the fixed loops, if these only move the whole box within the domains.

    No condition is on fixed loops.
    """
    values = list(realize.values)
    known = tuple(normal_condition(condition, running) for condition in conditions)
    for position in positions:
        axis, value = realize.block.iter_vars[position], values[position]
        parts = linear(simplify(value, extents)).split(running)
        if parts is None:
            return realize
        own, moves = bounds_where(parts[0], running, known), parts[1].bounds(extents)
        if own is None or moves is None:
            return realize
        if min(own[0], own[0] + moves[0]) < 0 or max(own[1], own[1] + moves[1]) >= axis.extent:
            return realize
        values[position] = parts[0].expr()
    return replace(realize, values=tuple(values), predicate=all_of(conditions))


def _guards(
    realize: BlockRealize, values: Sequence[Expr], running: Mapping[Var, int]
) -> list[Expr]:
    """The conditions on fixed loops alone, as far as `values` speak of these loops."""
    used = {var for value in values for var in free_vars(value)}
    return [
        condition
        for condition in conjuncts(realize.predicate)
        if used & set(free_vars(condition)) and not any(v in running for v in free_vars(condition))
    ]


def _box_sizes(
    realize: BlockRealize,
    positions: Sequence[int],
    points: _Points,
    running: Mapping[Var, int],
    extents: Mapping[Var, int],
) -> Column:
    """At every point, how many values the hull of its fixed iteration holds within the domains."""
    conditions = conditions_of(realize, extents)
    size = np.ones(points.count, dtype=np.int64)
    for position in positions:
        axis: Axis = realize.block.iter_vars[position]
        hull = relax(Range(realize.values[position], 1), running, extents, conditions)
        assert hull is not None, "every loop around the block has a known extent"
        begin = points.column(hull.min)
        low, high = np.maximum(begin, 0), np.minimum(begin + hull.extent, axis.extent)
        size *= np.maximum(high - low, 0)
    return size


def _no_read(*_: object) -> int:
    raise InvalidIRError("a binding must not read memory; use loop variables alone")
