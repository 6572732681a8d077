"""Affine forms, bounds and the simplifier, against evaluation at every point."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from daedal.compiler.tir.evaluate import evaluate
from daedal.compiler.tir.expr import Expr, IntImm, Var, maximum, minimum
from daedal.compiler.tir.linear import bounds, linear, simplify
from daedal.compiler.tir.printer import expr_text

P, J, K = Var("i"), Var("j"), Var("k")
EXTENTS = {P: 4, J: 3, K: 5}


def expressions(depth: int = 3) -> st.SearchStrategy[Expr]:
    """Random index expressions over i, j and k."""
    leaves = st.one_of(st.sampled_from([P, J, K]), st.integers(-5, 9).map(IntImm))
    if depth == 0:
        return leaves
    part = expressions(depth - 1)
    divisor = st.integers(1, 6)
    return st.one_of(
        leaves,
        st.builds(lambda a, b: a + b, part, part),
        st.builds(lambda a, b: a - b, part, part),
        st.builds(lambda a, b: a * b, part, st.integers(-3, 4)),
        st.builds(lambda a, b: a // b, part, divisor),
        st.builds(lambda a, b: a % b, part, divisor),
        st.builds(minimum, part, part),
        st.builds(maximum, part, part),
        st.builds(lambda a, n, scale: (a // n * n + a % n) * scale, part, divisor, divisor),
    )


def values(expr: Expr) -> list[int]:
    """The value of `expr` at every point of the domain."""
    points = itertools.product(*(range(extent) for extent in EXTENTS.values()))
    return [
        int(evaluate(expr, dict(zip(EXTENTS, point, strict=True)), lambda *_: 0))
        for point in points
    ]


@given(expressions())
def test_simplify_keeps_the_value(expr: Expr) -> None:
    assert values(simplify(expr, EXTENTS)) == values(expr)


@given(expressions())
def test_bounds_hold(expr: Expr) -> None:
    limits = bounds(expr, EXTENTS)
    assert limits is not None
    found = values(expr)
    assert limits[0] <= min(found) and max(found) <= limits[1]


@given(
    st.lists(st.integers(-4, 4), min_size=3, max_size=3),
    st.integers(-9, 9),
    st.permutations([0, 1, 2]),
)
def test_affine_bounds_are_exact(factors: list[int], constant: int, order: list[int]) -> None:
    variables = [P, J, K]
    expr: Expr = IntImm(constant)
    for position in order:
        expr = expr + variables[position] * factors[position]
    found = values(expr)
    assert bounds(expr, EXTENTS) == (min(found), max(found))
    form = linear(expr)
    assert [form.coefficient(var) for var in variables] == factors
    assert form.constant == constant


def test_what_is_not_affine_is_a_term() -> None:
    form = linear(P // 2 + J * 3)
    assert {expr_text(term): factor for term, factor in form.terms} == {"i // 2": 1, "j": 3}


def test_simplify_shortens() -> None:
    cases = {
        (P * 4 + J) // 4: "i",
        (P * 4 + J) % 4: "j",
        (P * 8 + J) // 4: "i * 2",
        P + J - P: "j",
        P * 2 + P * 3 + 1: "i * 5 + 1",
        minimum(P, J + 10): "i",
        maximum(P, J + 10): "j + 10",
        (P * 5 + K) % 4: "(i * 5 + k) % 4",
        (P + K) // 3 * 3 + (P + K) % 3: "i + k",
        (P + K) // 2 // 2 * 8 + (P + K) // 2 % 2 * 4 + (P + K) % 2 * 2 + 1: "i * 2 + k * 2 + 1",
        (P + K) // 3 * 3 + (P + K) % 2: "(i + k) // 3 * 3 + (i + k) % 2",
    }
    for expr, text in cases.items():
        assert expr_text(simplify(expr, EXTENTS)) == text


def test_split_separates_inner_from_outer() -> None:
    form = linear(P * 4 + J + (K // 2) - 1)
    parts = form.split([J, K])
    assert parts is not None
    assert [expr_text(part.expr()) for part in parts] == ["j + k // 2", "i * 4 - 1"]
    assert linear((P + J) // 2).split([J]) is None


def test_evaluation_is_numpy_int64_for_indices() -> None:
    grid = np.arange(4)
    assert evaluate(P * 1000 + 7, {P: grid}, lambda *_: 0).tolist() == [7, 1007, 2007, 3007]
