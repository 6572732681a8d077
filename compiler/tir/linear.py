"""Affine forms of index expressions, their bounds, and a simplifier built on both."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from daedal.compiler.tir.dtype import INDEX_DTYPE
from daedal.compiler.tir.expr import Binary, Buffer, Cast, Expr, IntImm, Select, Var
from daedal.compiler.tir.memo import Memo
from daedal.compiler.tir.visit import children, free_vars, rebuilt

__all__ = [
    "Access",
    "Linear",
    "accessed_element",
    "bounds",
    "element_number",
    "linear",
    "simplify",
]


@dataclass(frozen=True)
class Linear:
    """``sum(coefficient * term) + constant``.

    Terms are variables or non-affine expressions (``f // 7``). No coefficient is 0."""

    terms: tuple[tuple[Expr, int], ...]
    constant: int

    def coefficient(self, term: Expr) -> int:
        """The coefficient of `term`, or 0 if it does not appear."""
        return dict(self.terms).get(term, 0)

    def split(self, variables: Container[Expr]) -> "tuple[Linear, Linear] | None":
        """The part in `variables` alone (no constant), and the rest; None where a term mixes."""
        first: list[tuple[Expr, int]] = []
        second: list[tuple[Expr, int]] = []
        for term, factor in self.terms:
            if isinstance(term, Var):
                inside = term in variables
            else:
                used = {var in variables for var in free_vars(term)}
                if len(used) > 1:
                    return None
                inside = used == {True}
            (first if inside else second).append((term, factor))
        return Linear(tuple(first), 0), Linear(tuple(second), self.constant)

    def bounds(self, extents: Mapping[Var, int]) -> tuple[int, int] | None:
        """Smallest and largest value; see `daedal.compiler.tir.linear.bounds`."""
        low = high = self.constant
        for term, factor in self.terms:
            inner = _term_bounds(term, extents)
            if inner is None:
                return None
            first, last = inner[0] * factor, inner[1] * factor
            low += min(first, last)
            high += max(first, last)
        return low, high

    def expr(self) -> Expr:
        """This form as an expression."""
        return _expr(self)

    def __sub__(self, other: "Linear") -> "Linear":
        return _sum(self, other, -1)

    def __add__(self, other: "Linear") -> "Linear":
        return _sum(self, other, 1)


def linear(expr: Expr) -> Linear:
    """The affine form of an integer expression; what is not affine in it becomes a term."""
    return _linear(expr)


def element_number(indices: Sequence[Expr], shape: Sequence[int]) -> Linear:
    """The number of an element of a buffer of `shape` whose elements lie in C order."""
    total, step = Linear((), 0), 1
    for index, extent in zip(reversed(indices), reversed(shape), strict=True):
        form = linear(index)
        scaled = tuple((term, factor * step) for term, factor in form.terms)
        total = total + Linear(scaled, form.constant * step)
        step *= extent
    return _rejoined(total)


class Access(Protocol):
    """A node that reads or writes an element of a buffer."""

    @property
    def buffer(self) -> Buffer:
        """Where the element is."""
        ...

    @property
    def indices(self) -> tuple[Expr, ...]:
        """Of the element."""
        ...


@Memo
def accessed_element(access: Access) -> Linear:
    """The number of the element that a node reads or writes, in C order."""
    return element_number(access.indices, access.buffer.shape)


def bounds(expr: Expr, extents: Mapping[Var, int]) -> tuple[int, int] | None:
    """Smallest and largest value over all v in [0, extents[v]); None where one is unknown.

    Exact for affine forms of independent variables; never too narrow.
    """
    return linear(expr).bounds(extents)


def simplify(expr: Expr, extents: Mapping[Var, int] | None = None) -> Expr:
    """A shorter equal expression: like terms joined, ``//`` and ``%`` resolved by bounds."""
    ranges = extents or {}

    def simplified(node: Expr) -> Expr:
        is_index = isinstance(node, Binary) and node.dtype == INDEX_DTYPE
        if is_index:
            form = linear(node)
            if all(isinstance(term, Var) for term, _ in form.terms):
                return form.expr()
        parts = children(node)
        if not parts:
            return node
        changed = rebuilt(node, tuple([simplified(part) for part in parts]))
        if not (is_index and isinstance(changed, Binary)):
            return changed
        shorter = _shorter(changed, ranges)
        return changed if shorter is None else shorter

    return simplified(expr)


def _shorter(node: Binary, ranges: Mapping[Var, int]) -> Expr | None:
    """An index of simplified operands."""
    if node.op in ("//", "%") and isinstance(node.b, IntImm) and node.b.value > 0:
        return _divide(node, node.b.value, ranges)
    if node.op in ("+", "-", "*"):
        return _rejoined(linear(node)).expr()
    return _extremum(node, ranges) if node.op in ("min", "max") else None


def _sum(a: Linear, b: Linear, sign: int) -> Linear:
    total = dict(a.terms)
    for term, factor in b.terms:
        total[term] = total.get(term, 0) + sign * factor
    kept = tuple((term, factor) for term, factor in total.items() if factor)
    return Linear(kept, a.constant + sign * b.constant)


@Memo
def _linear(expr: Expr) -> Linear:
    match expr:
        case Var():
            return Linear(((expr, 1),), 0)
        case IntImm(value):
            return Linear((), value)
        case Binary("+", a, b):
            return _sum(_linear(a), _linear(b), 1)
        case Binary("-", a, b):
            return _sum(_linear(a), _linear(b), -1)
        case Binary("*", a, b):
            left, right = _linear(a), _linear(b)
            if not left.terms:
                left, right = right, left
            if not right.terms:
                scale = right.constant
                terms = tuple((term, factor * scale) for term, factor in left.terms if scale)
                return Linear(terms, left.constant * scale)
        case Cast(dtype, value) if dtype in ("int32", "int64") and value.dtype == INDEX_DTYPE:
            return _linear(value)
    return Linear(((expr, 1),), 0)


@Memo
def _expr(form: Linear) -> Expr:
    result: Expr | None = None
    for term, factor in form.terms:
        if result is None:
            result = _node("*", term, factor) if factor != 1 else term
        else:
            part = term if abs(factor) == 1 else _node("*", term, abs(factor))
            result = _node("+" if factor > 0 else "-", result, part)
    if result is None:
        return IntImm(form.constant)
    if form.constant:
        result = _node("+" if form.constant > 0 else "-", result, abs(form.constant))
    _linear.remember(result, form)
    return result


def _node(op: str, a: Expr, b: Expr | int) -> Expr:
    """``a op b`` where nothing folds: as `daedal.compiler.tir.expr.binary` makes it, but fast."""
    return Binary(op, a, b if isinstance(b, Expr) else IntImm(b, a.dtype))


def _term_bounds(term: Expr, extents: Mapping[Var, int]) -> tuple[int, int] | None:
    if isinstance(term, Var):
        return (0, extents[term] - 1) if term in extents else None
    if isinstance(term, Select):
        true, false = bounds(term.true, extents), bounds(term.false, extents)
        if true is None or false is None:
            return None
        return min(true[0], false[0]), max(true[1], false[1])
    if isinstance(term, Binary) and term.op in ("//", "%", "min", "max"):
        a, b = bounds(term.a, extents), bounds(term.b, extents)
        if a is None or b is None:
            return None
        if term.op == "min":
            return min(a[0], b[0]), min(a[1], b[1])
        if term.op == "max":
            return max(a[0], b[0]), max(a[1], b[1])
        if b[0] == b[1] > 0:
            divisor = b[0]
            if term.op == "//":
                return a[0] // divisor, a[1] // divisor
            if a[0] // divisor == a[1] // divisor:
                return a[0] % divisor, a[1] % divisor
            return 0, divisor - 1
    return None


def _divide(node: Binary, divisor: int, extents: Mapping[Var, int]) -> Expr:
    """Split the dividend into a multiple of the divisor and a rest, which may vanish."""
    form = linear(node.a)
    whole = tuple((term, factor // divisor) for term, factor in form.terms if factor % divisor == 0)
    rest_terms = tuple((term, factor) for term, factor in form.terms if factor % divisor)
    rest = Linear(rest_terms, form.constant % divisor)
    quotient = Linear(whole, form.constant // divisor)
    limits = rest.bounds(extents)
    inside = limits is not None and limits[0] // divisor == limits[1] // divisor
    if inside:
        assert limits is not None
        steps = limits[0] // divisor
        if node.op == "//":
            return Linear(quotient.terms, quotient.constant + steps).expr()
        return Linear(rest.terms, rest.constant - steps * divisor).expr()
    if node.op == "//":
        return quotient.expr() + _quotient(rest.expr(), divisor)
    return rest.expr() % divisor


def _rejoined(form: Linear) -> Linear:
    """Digits put together again: ``x // c * c + x % c`` is ``x``."""
    factors = dict(form.terms)
    for term, factor in form.terms:
        if not isinstance(term, Binary) or term.op != "%" or not isinstance(term.b, IntImm):
            continue
        modulus = term.b.value
        upper = _quotient(term.a, modulus)
        if modulus > 0 and factors.get(upper) == factor * modulus:
            rest = tuple(item for item in form.terms if item[0] not in (term, upper))
            whole = linear(term.a)
            scaled = tuple((inner, own * factor) for inner, own in whole.terms)
            joined = Linear(scaled, whole.constant * factor) + Linear(rest, form.constant)
            return _rejoined(joined)
    return form


def _quotient(dividend: Expr, divisor: int) -> Expr:
    """``dividend // divisor``, where ``x // a // b`` is ``x // (a * b)``."""
    match dividend:
        case Binary("//", inner, IntImm(value)) if value > 0:
            return inner // (value * divisor)
    return dividend // divisor


def _extremum(node: Binary, extents: Mapping[Var, int]) -> Expr | None:
    limits = (linear(node.a) - linear(node.b)).bounds(extents)
    if limits is None:
        return None
    if limits[1] <= 0:
        return node.a if node.op == "min" else node.b
    if limits[0] >= 0:
        return node.b if node.op == "min" else node.a
    return None
