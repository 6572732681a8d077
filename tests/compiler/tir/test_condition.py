"""Conditions on loops, against every iteration listed."""

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daedal.compiler.tir.condition import (
    Condition,
    bounds_where,
    entry_condition,
    normal_condition,
)
from daedal.compiler.tir.evaluate import evaluate
from daedal.compiler.tir.expr import Compare, Expr, IntImm, Var
from daedal.compiler.tir.linear import linear

A, B, C, ONE = Var("a"), Var("b"), Var("c"), Var("one")
EXTENTS: dict[Var, int] = {A: 3, B: 4, C: 2, ONE: 1}

Point = dict[Var, int]


def points() -> Iterator[Point]:
    for values in itertools.product(*map(range, EXTENTS.values())):
        yield dict(zip(EXTENTS, values, strict=True))


def no_loads(*_: object) -> int:
    raise AssertionError("an index does not read memory")


def value(expr: Expr, point: Point) -> int:
    return int(evaluate(expr, dict(point), no_loads))


def holds(condition: Condition, point: Point) -> bool:
    total = condition.constant
    for term, factor in condition.terms:
        total += factor * value(term, point)
    return total >= 0 if condition.at_least else total < 0


def sums() -> st.SearchStrategy[Expr]:
    """Affine expressions as splits make them, and others."""
    factor = st.sampled_from([-4, -1, 0, 1, 2, 3, 4, 8])

    def make(factors: list[int], constant: int) -> Expr:
        total: Expr = IntImm(constant)
        for var, own in zip(EXTENTS, factors, strict=True):
            total = total + var * own
        return total

    return st.builds(make, st.lists(factor, min_size=4, max_size=4), st.integers(-9, 9))


conditions = st.builds(
    Compare, st.sampled_from(["<", ">="]), sums(), st.integers(-9, 20).map(IntImm)
)


@given(conditions)
def test_the_normal_form_holds_where_the_condition_does(condition: Compare) -> None:
    normal = normal_condition(condition, EXTENTS)
    for point in points():
        assert holds(normal, point) == bool(value(condition, point))


def test_equal_conditions_have_one_normal_form() -> None:
    forms = {
        normal_condition(A * 8 + B * 2 + C < 12, EXTENTS),
        normal_condition(A * 4 + B < 6, EXTENTS),
        normal_condition(A * 4 + B + ONE * 3 < 6, EXTENTS),
        normal_condition((A * 8 + B * 2 + C) // 2 < 6, EXTENTS),
    }
    assert len(forms) == 1


@given(conditions)
def test_entry_asks_for_any_inner_iteration(condition: Compare) -> None:
    """Where the outer loops pass, some iteration of the inner ones does, and only there."""
    inner = {B: EXTENTS[B], C: EXTENTS[C]}
    entry = entry_condition(condition, inner, EXTENTS)
    assert entry is not None
    for a in range(EXTENTS[A]):
        inside = [point for point in points() if point[A] == a]
        assert holds(entry, inside[0]) == any(value(condition, point) for point in inside)


@given(sums(), st.lists(conditions, max_size=3))
def test_bounds_hold_where_the_conditions_do(form: Expr, where: list[Compare]) -> None:
    normal = [normal_condition(condition, EXTENTS) for condition in where]
    found = bounds_where(linear(form), EXTENTS, normal)
    assert found is not None
    reached = [
        value(form, point) for point in points() if all(holds(item, point) for item in normal)
    ]
    assert all(found[0] <= item <= found[1] for item in reached)


def test_bounds_of_a_clipped_tile_are_exact() -> None:
    where = [normal_condition(A * 4 + B < 7, EXTENTS), normal_condition(A * 4 + B >= 2, EXTENTS)]
    assert bounds_where(linear(A * 8 + B * 2 + C - 1), EXTENTS, where) == (3, 12)
    assert bounds_where(linear(A * 8 + B), EXTENTS, where) == (0, 19)


@pytest.mark.parametrize("limit", range(1, 13))
@pytest.mark.parametrize("factor", [1, 3])
def test_bounds_of_a_quotient_are_those_of_its_terms_together(limit: int, factor: int) -> None:
    """``A * 2 + B // 2`` is ``(A * 4 + B) // 2``."""
    where = [normal_condition(limit > A * 4 + B, EXTENTS)]
    form = A * (2 * factor) + B // 2 * factor + C
    reached = [
        value(form, point) for point in points() if all(holds(item, point) for item in where)
    ]
    assert bounds_where(linear(form), EXTENTS, where) == (min(reached), max(reached))
