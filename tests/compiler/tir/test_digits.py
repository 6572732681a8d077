"""Boxes that are counted digit by digit, compared with all points of their loops."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daedal.compiler.tir.digits import counts_box
from daedal.compiler.tir.evaluate import evaluate
from daedal.compiler.tir.expr import Axis, Buffer, Expr, Load, Var

b, t, r, c = (Var(name) for name in "btrc")
EXTENTS = {b: 6, t: 8, r: 2, c: 3}


def axes(*extents: int) -> list[Axis]:
    return [Axis(f"v{n}", extent=extent) for n, extent in enumerate(extents)]


def no_read(*_: object) -> int:
    raise AssertionError


def is_box(domains: list[Axis], values: list[Expr], extents: dict[Var, int]) -> bool:
    """By all points: distinct, within the domains, and as many as their hull has."""
    points = {
        tuple(
            int(evaluate(value, dict(zip(extents, at, strict=True)), no_read)) for value in values
        )
        for at in itertools.product(*map(range, extents.values()))
    }
    total = 1
    for extent in extents.values():
        total *= extent
    size = 1
    for n, domain in enumerate(domains):
        column = [point[n] for point in points]
        if min(column) < 0 or max(column) >= domain.extent:
            return False
        size *= max(column) - min(column) + 1
    return len(points) == total == size


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([b // 3 * 8 + t // 4 * 4 + r * 2 + t % 2, b % 3 * 6 + t // 2 % 2 * 3 + c], False),
        ([b // 3 * 4 + t // 4 * 2 + r, b % 3 * 12 + t % 4 * 3 + c], True),
        ([b // 3 * 4 + r * 2 + t // 4, b % 3 * 12 + c * 4 + t % 4], True),
        ([b // 3 * 4 + t // 4 * 2 + r + 1, b % 3 * 12 + t % 4 * 3 + c], True),
        ([b // 3 * 4 + t // 4 * 2 + r, b % 3 * 12 + t % 4 * 3 + c * 2], False),
        ([b // 3 * 4 + t // 4 * 2 + r, b // 3 * 12 + t % 4 * 3 + c], False),
        ([b // 2 * 4 + t // 4 * 2 + r, b % 3 * 12 + t % 4 * 3 + c], False),
        ([b // 3 * 5 + t // 4 * 2 + r, b % 3 * 12 + t % 4 * 3 + c], False),
    ],
)
def test_grids_fit_together_like_digits(values: list[Expr], expected: bool) -> None:
    domains = axes(16, 40)
    assert counts_box(domains, values, EXTENTS) == expected
    assert is_box(domains, values, EXTENTS) or not expected


@given(
    st.lists(st.sampled_from([1, 2, 3, 4, 6, 8, 12]), min_size=6, max_size=6),
    st.sampled_from([1, 2, 3, 4, 8]),
    st.integers(0, 2),
)
@settings(deadline=None, max_examples=200)
def test_what_is_found_is_a_box(factors: list[int], divisor: int, offset: int) -> None:
    """Never the other way round: a box of another form may not be found."""
    x, y, p, q, m, n = factors
    values = [t // divisor * x + r * y + b // 2 * p + offset, t % divisor * q + c * m + b % 2 * n]
    domains = axes(60, 60)
    if counts_box(domains, values, EXTENTS):
        assert is_box(domains, values, EXTENTS)


def test_a_box_outside_of_its_domain_is_none() -> None:
    assert counts_box(axes(48), [b * 8 + t], EXTENTS)
    assert not counts_box(axes(47), [b * 8 + t], EXTENTS)
    assert not counts_box(axes(48), [b * 8 + t - 1], EXTENTS)


def test_large_boxes_are_not_listed() -> None:
    many = {b: 1 << 16, t: 1 << 10, r: 4}
    values = [b // 256 * 64 + t // 64 * 4 + r, b % 256 * 64 + t % 64]
    assert counts_box(axes(256 * 64, 256 * 64), values, many)


def test_a_loop_of_more_than_a_million_is_not_listed() -> None:
    for extent, listed in ((1 << 14, True), ((1 << 20) + 1, False)):
        assert counts_box(axes(extent), [b], {b: extent}) == listed


def test_values_that_are_read_are_none() -> None:
    table = Buffer("table", (8,), "int32")
    assert not counts_box(axes(8), [Load(table, (t,))], EXTENTS)
