"""Cutting loops at selects gives the values that the expression has in every iteration."""

import itertools

import numpy as np

from daedal.compiler.codegen.cuts import decided, first_cut
from daedal.compiler.codegen.forms import constant_of
from daedal.compiler.ops.piecewise import piecewise
from daedal.compiler.tir.expr import Expr, IntImm, Select, Var
from daedal.compiler.tir.linear import linear

V, W = Var("v"), Var("w")


def parts(expr: Expr, ranges: dict[Var, range]) -> list[tuple[Expr, dict[Var, range]]]:
    """All cuts made, with what is left of the expression in each part."""
    expr = decided(expr, ranges)
    cut = first_cut(expr, ranges)
    if cut is None:
        return [(expr, ranges)]
    var, value = cut
    assert ranges[var].start < value < ranges[var].stop
    halves = (range(ranges[var].start, value), range(value, ranges[var].stop))
    return [item for half in halves for item in parts(expr, {**ranges, var: half})]


def selects(expr: Expr) -> int:
    if isinstance(expr, Select):
        return 1 + selects(expr.true) + selects(expr.false)
    return sum(selects(term) for term, _ in linear(expr).terms if term is not expr)


def check(expr: Expr, ranges: dict[Var, range], most: int) -> None:
    """The parts cover every iteration once, and their expressions have no select left."""
    found = parts(expr, ranges)
    assert len(found) <= most
    seen = []
    for rest, part in found:
        assert selects(rest) == 0
        for values in itertools.product(*part.values()):
            env = dict(zip(part, values, strict=True))
            assert constant_of(rest, env) == constant_of(expr, env)
            seen.append(values)
    assert sorted(seen) == list(itertools.product(*ranges.values()))


def test_a_table_of_classes():
    lines = [[0, 1, 1, 1, 2], [3, 4, 4, 4, 5], [3, 4, 4, 4, 5], [6, 7, 7, 7, 8]]
    table = piecewise(V, [piecewise(W, [IntImm(n) for n in line]) for line in lines])
    check(table, {V: range(4), W: range(5)}, 9)
    check(table * 3 + W, {V: range(1, 4), W: range(2, 5)}, 4)
    check(table, {V: range(1, 2), W: range(1, 4)}, 1)


def test_random_tables_and_steps(rng: np.random.Generator):
    for _ in range(30):
        size = int(rng.integers(1, 9))
        line = [IntImm(int(n)) for n in rng.integers(0, 3, size)]
        factor = int(rng.choice([-2, -1, 1, 2]))
        begin = 0 if factor > 0 else size - 1
        values = range(-(-size // abs(factor)))
        check(piecewise(V * factor + begin, line), {V: values, W: range(2)}, size)


def test_a_condition_on_two_loops_is_not_cut():
    mixed = Select(V + W < 3, IntImm(0), IntImm(1))
    assert first_cut(mixed, {V: range(3), W: range(3)}) is None
    assert decided(mixed, {V: range(3), W: range(3)}) == mixed
