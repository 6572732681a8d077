"""`with_reciprocals`: quotients by a scale that are rounded to integers of 8 or 16 bits.

QuantizeLinear divides, which takes vectors ten times as long as a product::

    int8(round(x / 0.0123) + z)        int8(round(x * high + x * low) + z);  high + low = 1 / 0.0123

Both grow with `x`, so they are the same where both change: next to the ties. There all floats are
compared when a model is compiled.

Products with small numbers must not be subnormal, on which processors stall. A softmax that is
quantized has powers of e from about 2^-60 on (`without_tiny_powers`): smaller ones are rounded to 0
as well, and are too small to matter in a sum that has an ``exp(0)``.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np

from daedal.compiler import te
from daedal.compiler.cpu.immediates import LARGEST_KEPT
from daedal.compiler.tir.dtype import is_integer
from daedal.compiler.tir.expr import (
    Binary,
    Buffer,
    Call,
    Cast,
    Compare,
    Expr,
    FloatImm,
    IntImm,
    Load,
    Reduce,
    Select,
)
from daedal.compiler.tir.visit import rewrite, walk

__all__ = ["reciprocal_of", "with_reciprocals", "without_tiny_powers"]


NARROW = frozenset(("int8", "uint8"))
TIES = {"int8": 400, "uint8": 400, "int16": 1 << 16, "uint16": 1 << 17}
"""Quotients beyond so many are no integers of a type with any zero point."""
SMALLEST, LARGEST = 2.0**-60, 2.0**60
"""Of scales: no part of a reciprocal is too small or too large for a float32."""
LEAST_SCALE, TINY = 2.0**-20, 2.0**-60
"""Of quotients: what is smaller than the latter divided by more than the former is rounded to 0,
and products of all that is not have no subnormal part."""
LEAST_POWER, MOST_TERMS = -41.0, 1 << 20
"""A power of e that is rounded to 0 when it is divided by more than `LEAST_SCALE`, and so many of
which add up to less than the last place of 1."""
NEAR = 4
"""Floats on each side of a tie."""


def with_reciprocals(formula: Expr, *, may_be_tiny: bool = False) -> Expr:
    """The formula, where what becomes an integer of 8 or 16 bits is divided by products.

    `may_be_tiny`: what is divided may be such a small number that products with it are subnormal,
    on which processors stall. Where it is never negative, such as a softmax, it is 0 then.
    """

    def visit(node: Expr) -> Expr | None:
        match node:
            case Cast(dtype, Binary("+", rounded, Cast(_, zero) as added)) if dtype in TIES:
                found = _quotient(rounded, TIES[dtype], may_be_tiny=may_be_tiny)
                if is_integer(zero.dtype) and found is not None:
                    is_zero = isinstance(zero, IntImm) and not zero.value
                    return Cast(dtype, found if is_zero else found + added)
            case Cast(dtype, rounded) if dtype in TIES:
                found = _quotient(rounded, TIES[dtype], may_be_tiny=may_be_tiny)
                if found is not None:
                    return Cast(dtype, found)
        return None

    return rewrite(formula, visit)


def _quotient(rounded: Expr, ties: int, *, may_be_tiny: bool) -> Expr | None:
    match rounded:
        case Call("round", (Binary("/", value, FloatImm(divisor, "float32")),)):
            parts = reciprocal_of(divisor, ties)
            if may_be_tiny and not (divisor > LEAST_SCALE and _is_never_negative(value)):
                return None
            if may_be_tiny:
                value = te.select(value < TINY, 0.0, value)
            if parts is not None:
                given = (FloatImm(item, "float32") for item in (divisor, *parts))
                return te.rounded_quotient(value, *given)
    return None


def without_tiny_powers(stages: Sequence[te.Tensor], formulas: Sequence[Expr]) -> list[Expr] | None:
    """The formulas of `stages`, the last one of which is quantized, without powers of e below
    `LEAST_POWER`; None where something else than quotients by a scale reads them.

    A softmax is ``p[j] / s`` of powers p and their sum s, at least 1: what it is quantized from is
    the same number as before, or both are 0 for every scale.
    """
    *before, last = formulas
    made: dict[Buffer, Expr] = {}
    raised = list[Expr]()

    def visit(node: Expr) -> Expr | None:
        return _raised(node, made)

    for tensor, formula in zip(stages[:-1], before, strict=True):
        raised.append(rewrite(formula, visit))
        made[tensor] = raised[-1]
    if raised == before:
        return None
    divided = 0
    for node in walk(last):
        if isinstance(node, Cast) and node.dtype in NARROW:
            value = _divided(node)
            if value is None or not _is_share(value, made):
                return None
            divided += _count(value, made)
    return [*raised, last] if divided == _count(last, made) else None


def _count(formula: Expr, buffers: Collection[Buffer]) -> int:
    """How often a formula reads one of `buffers`."""
    return sum(isinstance(node, Load) and node.buffer in buffers for node in walk(formula))


def _raised(node: Expr, made: Mapping[Buffer, Expr]) -> Expr | None:
    """What is 0 for small powers of a difference to a maximum, as a power that is never too
    small."""
    match node:
        case Select(
            Compare("<", Binary("-", _, Load(maximum)) as x, FloatImm(least)),
            FloatImm(0),
            Call("exp", (Binary("min", Binary("max", inner, FloatImm(low)), FloatImm(0) as most),)),
        ) if inner == x and node.dtype == "float32" and least == low <= LEAST_POWER:
            match made.get(maximum):
                case Reduce("max"):
                    pass
                case _:
                    return None
            return te.exp(te.minimum(te.maximum(x, FloatImm(LEAST_POWER, "float32")), most))
    return None


def _is_share(value: Expr, made: Mapping[Buffer, Expr]) -> bool:
    """Whether a float is a power of e, from `LEAST_POWER` to 0, times the inverse of a sum of such:
    it has a power of 0, as these are of differences to a maximum, or it is no number."""

    def formula(load: Expr) -> Expr:
        while isinstance(load, Load) and load.buffer in made:
            load = made[load.buffer]
        return load

    match value:
        case Binary("*", power, Binary("/", FloatImm(1.0), total)):
            total = formula(total)
            return (
                _is_power(formula(power))
                and isinstance(total, Reduce)
                and total.op == "sum"
                and math.prod(axis.extent for axis in total.axes) <= MOST_TERMS
                and _is_power(formula(total.value))
            )
    return False


def _is_power(value: Expr) -> bool:
    match value:
        case Call("exp", (Binary("min", Binary("max", _, FloatImm(low)), FloatImm(0)),)):
            return low == LEAST_POWER
    return False


def _divided(node: Cast) -> Expr | None:
    """What QuantizeLinear divides by a scale that is not too small."""
    rounded = node.value
    match rounded:
        case Binary("+", whole, Cast(_, zero)) if is_integer(zero.dtype):
            rounded = whole
    match rounded:
        case Call("round", (Binary("/", value, FloatImm(divisor, "float32")),)):
            return value if LEAST_SCALE < divisor <= 1 else None
    return None


def _is_never_negative(value: Expr) -> bool:
    """Whether a float is 0 or more, or no number."""
    match value:
        case Call("exp"):
            return True
        case FloatImm(number):
            return number >= 0
        case Select(_, a, b) | Binary("+" | "*" | "/", a, b):
            return _is_never_negative(a) and _is_never_negative(b)
        case Reduce("sum" | "max", inner, _):
            return _is_never_negative(inner)
        case Load(te.Tensor() as read):
            return read.value is not None and _is_never_negative(read.value)
    return False


@lru_cache(maxsize=4096)
def reciprocal_of(divisor: float, ties: int = TIES["int8"]) -> tuple[float, float] | None:
    """Two float32, whose products with any float32 and their sum, rounded once, are rounded as its
    quotient by `divisor`, below so many `ties`; None where they are not."""
    scale = np.float32(divisor)
    if not SMALLEST <= scale <= LARGEST:
        return None
    exact = 1 / Fraction(float(scale))
    high = np.float32(float(exact))
    # The rest is positive: products grow with each factor. Small whole numbers would be immediates.
    while Fraction(float(high)) >= exact or (high <= LARGEST_KEPT and float(high).is_integer()):
        high = np.nextafter(high, np.float32(0))
    low = np.float32(float(exact - Fraction(float(high))))
    middles = (np.arange(ties) + 0.5) * float(scale)
    bits = middles.astype(np.float32).view(np.int32)[:, None] + np.arange(
        -NEAR, NEAR + 1, dtype=np.int32
    )
    values = bits.view(np.float32)
    wide = values.astype(np.float64) * float(high) + (values * low).astype(np.float64)
    sums, wanted = wide.astype(np.float32), np.rint(values / scale)
    # A sum that float64 rounds to the middle of two float32 may lie on either side of it.
    is_middle = wide.view(np.int64) & ((1 << 29) - 1) == 1 << 28
    for end in (-np.inf, 0.0, np.inf):
        side = np.nextafter(sums, np.float32(end)) if end else sums
        if np.any((np.rint(side) != wanted) & (is_middle | (end == 0))):
            return None
    return float(high), float(low)
