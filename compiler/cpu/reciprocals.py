"""`with_reciprocals`: quotients by a scale that are rounded to 8-bit integers.

QuantizeLinear divides, which takes vectors ten times as long as a product::

    int8(round(x / 0.0123) + z)        int8(round(x * high + x * low) + z);  high + low = 1 / 0.0123

Both grow with `x`, so they are the same where both change: next to the ties. There all floats are
compared when a model is compiled.
"""

from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from daedal.compiler import te
from daedal.compiler.tir.dtype import is_integer
from daedal.compiler.tir.expr import Binary, Call, Cast, Expr, FloatImm, Load, Reduce, Select
from daedal.compiler.tir.visit import rewrite

__all__ = ["reciprocal_of", "with_reciprocals"]

Reals = npt.NDArray[np.float32]

NARROW = frozenset(("int8", "uint8"))
SMALLEST, LARGEST = 2.0**-60, 2.0**60
"""Of scales: no part of a reciprocal is too small or too large for a float32."""
LEAST_SCALE, TINY = 2.0**-20, 2.0**-60
"""Of quotients: what is smaller than the latter divided by more than the former is rounded to 0,
and products of all that is not have no subnormal part."""
MOST_TIES, NEAR = 400, 4
"""Quotients beyond are no 8-bit integers with any zero point; floats on each side of a tie."""


def with_reciprocals(formula: Expr, *, may_be_tiny: bool = False) -> Expr:
    """The formula, where what becomes an 8-bit integer is divided by products.

    `may_be_tiny`: what is divided may be such a small number that products with it are subnormal,
    on which processors stall. Where it is never negative, such as a softmax, it is 0 then.
    """

    def visit(node: Expr) -> Expr | None:
        match node:
            case Cast(dtype, Binary("+", rounded, Cast(_, zero) as added)) if dtype in NARROW:
                found = _quotient(rounded, may_be_tiny=may_be_tiny)
                if is_integer(zero.dtype) and found is not None:
                    return Cast(dtype, found + added)
            case Cast(dtype, rounded) if dtype in NARROW:
                found = _quotient(rounded, may_be_tiny=may_be_tiny)
                if found is not None:
                    return Cast(dtype, found)
        return None

    return rewrite(formula, visit)


def _quotient(rounded: Expr, *, may_be_tiny: bool) -> Expr | None:
    match rounded:
        case Call("round", (Binary("/", value, FloatImm(divisor, "float32")),)):
            parts = reciprocal_of(divisor)
            if may_be_tiny and not (divisor > LEAST_SCALE and _is_never_negative(value)):
                return None
            if may_be_tiny:
                value = te.select(value < TINY, 0.0, value)
            if parts is not None:
                given = (FloatImm(item, "float32") for item in (divisor, *parts))
                return te.rounded_quotient(value, *given)
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
def reciprocal_of(divisor: float) -> tuple[float, float] | None:
    """Two float32, whose products with any float32 and their sum, rounded once, are rounded as its
    quotient by `divisor`; None where they are not."""
    scale = np.float32(divisor)
    if not SMALLEST <= scale <= LARGEST:
        return None
    exact = 1 / Fraction(float(scale))
    high = np.float32(float(exact))
    # The rest is positive: products grow with each factor. Whole numbers would be immediates.
    while Fraction(float(high)) >= exact or float(high).is_integer():
        high = np.nextafter(high, np.float32(0))
    low = np.float32(float(exact - Fraction(float(high))))
    ties = (np.arange(MOST_TIES) + 0.5) * float(scale)
    bits = ties.astype(np.float32).view(np.int32)[:, None] + np.arange(
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
