"""Conditions on loops: the constraints of a block's predicate on the values of its loops."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from daedal.compiler.tir.expr import And, Binary, Compare, Expr, IntImm, Var
from daedal.compiler.tir.linear import Linear, linear, simplify

__all__ = [
    "Condition",
    "all_of",
    "bounds_where",
    "conjuncts",
    "entry_condition",
    "normal_condition",
]


@dataclass(frozen=True)
class Condition:
    """``sum(factor * term) + constant < 0``, or with `at_least` ``>= 0``; equal ones are equal."""

    at_least: bool
    terms: frozenset[tuple[Expr, int]]
    constant: int


def all_of(conditions: Sequence[Expr]) -> Expr | None:
    """The predicate that combines `conditions` with ``&``; None where there are none."""
    return reduce(And, conditions) if conditions else None


def conjuncts(predicate: Expr | None) -> list[Expr]:
    """The conditions that a predicate combines with ``&``."""
    if predicate is None:
        return []
    if isinstance(predicate, And):
        return conjuncts(predicate.a) + conjuncts(predicate.b)
    return [predicate]


def normal_condition(condition: Expr, extents: Mapping[Var, int]) -> Condition:
    """A comparison with ``<`` or ``>=`` of affine expressions over loops of the given extents."""
    form, at_least = _difference(condition, extents)
    return _normal(at_least, form, extents)


def entry_condition(
    condition: Expr, inner: Mapping[Var, int], extents: Mapping[Var, int]
) -> Condition | None:
    """What a condition asks of the other loops for any iteration of the `inner` ones to pass.

    None where that is unknown.
    """
    form, at_least = _difference(condition, extents)
    parts = form.split(inner)
    limits = None if parts is None else parts[0].bounds(inner)
    if parts is None or limits is None:
        return None
    best = limits[1] if at_least else limits[0]
    return _normal(at_least, Linear(parts[1].terms, parts[1].constant + best), extents)


def bounds_where(
    form: Linear, extents: Mapping[Var, int], conditions: Sequence[Condition]
) -> tuple[int, int] | None:
    """`Linear.bounds` where `conditions` hold; those that do not speak of a part of it are ignored.

    >>> i, j = Var("i"), Var("j")
    >>> where = [normal_condition(i * 4 + j < 6, {i: 2, j: 4})]
    >>> bounds_where(linear(i * 8 + j * 2), {i: 2, j: 4}, where)
    (0, 10)
    >>> bounds_where(linear((i * 4 + j) // 3), {i: 2, j: 4}, where)
    (0, 1)
    >>> bounds_where(linear(i * 2 + j // 2), {i: 2, j: 4}, where)
    (0, 2)
    """
    if not conditions:
        return form.bounds(extents)
    limits: dict[frozenset[tuple[Expr, int]], tuple[int, int]] = {}
    for condition in conditions:
        terms = condition.terms
        found = limits.get(terms) or Linear(tuple(terms), 0).bounds(extents)
        if found is not None:
            end = -condition.constant
            low, high = found
            limits[terms] = (
                (max(low, end), high) if condition.at_least else (low, min(high, end - 1))
            )
    rest = dict(form.terms)
    low = high = form.constant
    for terms, (first, last) in limits.items():
        ratios = {rest.get(term, 0) / factor for term, factor in terms}
        ratio = ratios.pop() if len(ratios) == 1 else 0
        if ratio and ratio == int(ratio) and first <= last:
            ends = int(ratio) * first, int(ratio) * last
            low, high = low + min(ends), high + max(ends)
            for term, _ in terms:
                del rest[term]
    for quotient in [term for term in rest if isinstance(term, Binary) and term.op == "//"]:
        joined = quotient in rest and _joined_where(quotient, rest, extents, conditions)
        if joined:
            low, high = low + joined[0], high + joined[1]
    for term, factor in rest.items():
        found = _term_where(term, extents, conditions)
        if found is None:
            return None
        ends = found[0] * factor, found[1] * factor
        low, high = low + min(ends), high + max(ends)
    return low, high


def _joined_where(
    quotient: Binary,
    rest: dict[Expr, int],
    extents: Mapping[Var, int],
    conditions: Sequence[Condition],
) -> tuple[int, int] | None:
    """Bounds of a quotient and terms that can be in it, ``x * 16 + y // 2 = (x * 32 + y) // 2``, if
    conditions speak of what is divided then; these terms are taken out of `rest`."""
    factor = rest[quotient]
    match quotient:
        case Binary("//", divided, IntImm(divisor)) if divisor > 0 and factor > 0:
            form = linear(divided)
        case _:
            return None
    own = dict(form.terms)
    for condition in conditions:
        others = {term: f for term, f in condition.terms if term not in own}
        if {term: f for term, f in condition.terms if term in own} != own:
            continue
        if any(f % divisor or rest.get(x) != f // divisor * factor for x, f in others.items()):
            continue
        terms = tuple(condition.terms)
        found = bounds_where(Linear(terms, form.constant), extents, conditions)
        if found is not None:
            for term in (quotient, *others):
                del rest[term]
            return found[0] // divisor * factor, found[1] // divisor * factor
    return None


def _term_where(
    term: Expr, extents: Mapping[Var, int], conditions: Sequence[Condition]
) -> tuple[int, int] | None:
    """`bounds_where` of one term: a quotient or remainder is as large as what is divided."""
    match term:
        case Binary("//" | "%" as op, a, IntImm(divisor)) if divisor > 0:
            inside = bounds_where(linear(a), extents, conditions)
            if inside is not None:
                first, last = inside[0] // divisor, inside[1] // divisor
                if op == "//":
                    return first, last
                if first == last:
                    return inside[0] % divisor, inside[1] % divisor
    return linear(term).bounds(extents)


def _difference(condition: Expr, extents: Mapping[Var, int]) -> tuple[Linear, bool]:
    assert isinstance(condition, Compare) and condition.op in ("<", ">=")
    return linear(simplify(condition.a - condition.b, extents)), condition.op == ">="


def _normal(at_least: bool, form: Linear, extents: Mapping[Var, int]) -> Condition:
    """The smallest form: ``f*x + r < 0`` with 0 <= r < f is ``x < 0``, and a loop of one is 0."""
    terms = tuple((t, f) for t, f in form.terms if not isinstance(t, Var) or extents.get(t) != 1)
    for size in sorted({abs(factor) for _, factor in terms} - {1}, reverse=True):
        rest = Linear(tuple((t, f) for t, f in terms if f % size), form.constant)
        limits = rest.bounds(extents)
        if limits is not None and limits[0] // size == limits[1] // size:
            whole = tuple((t, f // size) for t, f in terms if not f % size)
            return _normal(at_least, Linear(whole, limits[0] // size), extents)
    return Condition(at_least, frozenset(terms), form.constant)
