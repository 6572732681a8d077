"""How block variables depend on loops: each instance at most once, in a box, clipped at the domain.

A block's loops fall in two classes: *fixed* ones, around the allocation of what it writes (each
iteration has a fresh buffer), and *running* ones inside. While the running loops run, the block's
variables must fill a box, every point of it once; a predicate may do nothing but clip that box at
the variables' domains.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from daedal.compiler.tir.errors import InvalidIRError
from daedal.compiler.tir.evaluate import evaluate
from daedal.compiler.tir.expr import Axis, Compare, Expr, Var
from daedal.compiler.tir.linear import bounds, linear, simplify
from daedal.compiler.tir.printer import expr_text
from daedal.compiler.tir.region import conjuncts, relax
from daedal.compiler.tir.stmt import BlockRealize, Range
from daedal.compiler.tir.visit import free_vars

__all__ = ["check_bindings", "clip_conditions", "value_ranges"]

MAX_ENUMERATED = 1 << 22
"""Largest group of related loops whose bindings are checked by enumeration."""


def value_ranges(
    realize: BlockRealize, running: Mapping[Var, int], extents: Mapping[Var, int]
) -> list[Range]:
    """Per block variable, the box it fills while the running loops run (before clipping)."""
    result = []
    for axis, value in zip(realize.block.iter_vars, realize.values, strict=True):
        part = relax(Range(value, 1), running, extents)
        if part is None:
            raise InvalidIRError(
                f"a binding must be affine in loops, not {axis.name} = {expr_text(value)} "
                f"(block {realize.block.name!r})"
            )
        result.append(part)
    return result


def clip_conditions(
    iter_vars: Sequence[Axis], values: Sequence[Expr], extents: Mapping[Var, int]
) -> list[Expr]:
    """The conditions that keep each value in the domain of its variable."""
    conditions: list[Expr] = []
    for axis, value in zip(iter_vars, values, strict=True):
        limits = bounds(value, extents)
        if limits is None or limits[0] < 0:
            conditions.append(value >= 0)
        if limits is None or limits[1] >= axis.extent:
            conditions.append(value < axis.extent)
    return conditions


def check_bindings(
    realize: BlockRealize, running: Mapping[Var, int], extents: Mapping[Var, int]
) -> None:
    """Raise InvalidIRError unless the bindings follow the rule of this module.

    Parameters
    ----------
    running
        Extents of the loops around the block that lie inside the allocation of what it writes.
    extents
        Extents of all loops around the block.
    """
    block = realize.block
    _check_form(realize)
    used = {var for value in realize.values for var in free_vars(value)}
    for var, extent in running.items():
        if extent > 1 and var not in used:
            raise InvalidIRError(
                f"every loop around a block must take part in its bindings, not {var.name!r} alone "
                f"(block {block.name!r})"
            )
    for group in _groups(realize.values, running):
        simple = len(group) == 1 and _is_dense(realize.values[group[0]], running, extents)
        if not (simple and _is_clipped(realize, group[0], extents)):
            _enumerate(realize, group, running, extents)


def _groups(values: Sequence[Expr], running: Mapping[Var, int]) -> list[list[int]]:
    """Positions of values that share running loops, directly or through others."""
    groups: list[tuple[set[Var], list[int]]] = []
    for position, value in enumerate(values):
        used = {var for var in free_vars(value) if var in running}
        members = [position]
        apart = []
        for others, positions in groups:
            if used & others:
                used, members = used | others, positions + members
            else:
                apart.append((others, positions))
        groups = [*apart, (used, members)]
    return [members for _, members in groups]


def _is_dense(value: Expr, running: Mapping[Var, int], extents: Mapping[Var, int]) -> bool:
    """Whether ``value`` counts like a mixed-radix number: 1*a + |a|*b + |a|*|b|*c ..."""
    form = linear(simplify(value, extents))
    parts = form.split(running)
    if parts is None:
        return False
    stride = 1
    for term, factor in sorted(parts[0].terms, key=lambda item: item[1]):
        if not isinstance(term, Var):
            return False
        if running[term] == 1:
            continue
        if factor != stride:
            return False
        stride *= running[term]
    return True


def _is_clipped(realize: BlockRealize, position: int, extents: Mapping[Var, int]) -> bool:
    """Whether the predicate clips this value at its domain where needed, and nowhere else."""
    axis, value = realize.block.iter_vars[position], realize.values[position]
    used = set(free_vars(value))
    have = {
        _normal(condition, extents)
        for condition in conjuncts(realize.predicate)
        if used & set(free_vars(condition))
    }
    needed = {_normal(c, extents) for c in clip_conditions([axis], [value], extents)}
    harmless = {_normal(value >= 0, extents), _normal(value < axis.extent, extents)}
    return needed <= have <= harmless


def _normal(
    condition: Expr, extents: Mapping[Var, int]
) -> tuple[str, frozenset[tuple[Expr, int]], int]:
    """A condition as operator and affine difference, for comparing."""
    assert isinstance(condition, Compare)
    form = linear(simplify(condition.a - condition.b, extents))
    return condition.op, frozenset(form.terms), form.constant


def _check_form(realize: BlockRealize) -> None:
    for condition in conjuncts(realize.predicate):
        if not isinstance(condition, Compare) or condition.op not in ("<", ">="):
            raise InvalidIRError(
                "a predicate may only clip loops, as in i*4 + j < 7, not ask "
                f"{expr_text(condition)} "
                f"(block {realize.block.name!r})"
            )


def _enumerate(
    realize: BlockRealize,
    group: Sequence[int],
    running: Mapping[Var, int],
    extents: Mapping[Var, int],
) -> None:
    """Check one group of related values point by point, for every iteration of the fixed loops."""
    block = realize.block
    values = [realize.values[position] for position in group]
    axes = [block.iter_vars[position] for position in group]
    variables = list(dict.fromkeys(var for value in values for var in free_vars(value)))
    conditions = [
        condition
        for condition in conjuncts(realize.predicate)
        if set(free_vars(condition)) & set(variables)
    ]
    variables += [v for c in conditions for v in free_vars(c) if v not in variables]
    variables = list(dict.fromkeys(variables))
    variables.sort(key=lambda var: var in running)
    sizes = [extents[var] for var in variables]
    shown = ", ".join(f"{a.name} = {expr_text(v)}" for a, v in zip(axes, values, strict=True))
    if int(np.prod(sizes)) > MAX_ENUMERATED:
        raise InvalidIRError(f"bindings are too entangled to check: {shown} (block {block.name!r})")
    env = dict(zip(variables, (axis.ravel() for axis in np.indices(sizes)), strict=True))
    count = int(np.prod(sizes))

    def table(expr: Expr) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        return np.broadcast_to(evaluate(expr, env, _no_read), (count,))

    keep = np.ones(count, dtype=bool)
    for condition in conditions:
        keep &= table(condition).astype(bool)
    fixed = np.zeros(count, dtype=np.int64)
    for var, size in zip(variables, sizes, strict=True):
        if var not in running:
            fixed = fixed * size + env[var]
    points = [table(value) for value in values]
    for axis, column in zip(axes, points, strict=True):
        if keep.any() and (column[keep].min() < 0 or column[keep].max() >= axis.extent):
            raise InvalidIRError(
                f"bindings must stay within their domains, not {shown} (block {block.name!r}); "
                "a predicate is missing"
            )
    rows = np.stack([fixed, *points])[:, keep]
    ranges = [relax(Range(value, 1), running, extents) for value in values]
    size_of_box = np.ones(count, dtype=np.int64)
    for part, axis in zip(ranges, axes, strict=True):
        assert part is not None
        low = np.maximum(table(part.min), 0)
        high = np.minimum(table(part.min) + part.extent, axis.extent)
        size_of_box *= np.maximum(high - low, 0)
    unique = np.unique(rows, axis=1).shape[1]
    if unique != rows.shape[1]:
        raise InvalidIRError(
            f"bindings must be independent: {shown} takes a value twice (block {block.name!r})"
        )
    # One box per iteration of the fixed loops; all points of one iteration share its size.
    running_count = int(
        np.prod([size for var, size in zip(variables, sizes, strict=True) if var in running])
    )
    expected = int(size_of_box[:: max(running_count, 1)].sum())
    if expected != unique:
        raise InvalidIRError(
            f"bindings must cover a box: {shown} leaves gaps (block {block.name!r})"
        )


def _no_read(*_: object) -> int:
    raise InvalidIRError("a binding must not read memory; use loop variables alone")
