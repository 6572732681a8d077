"""`without_narrow_casts`: integers that are converted further are not made narrow first.

A requantized sum becomes an int8, which the next convolution reads as a float32. Where a formula
has both, its bounds say that the int8 holds the sum, so it is the sum that is converted::

    float32(int8(min(max(s, 0), 255) + -128))        float32(min(max(s, 0), 255) + -128)

Vectors of bytes are packed from, and unpacked to, four times as many bytes. What is rounded and
becomes a float again stays one::

    float32(min(max(nearest_product(x, h, l), 0), 255) + -128)
        min(max(rounded_product(x, h, l) + -128.0, -128.0), 127.0)
"""

from daedal.compiler.tir.dtype import is_float, is_integer, limits
from daedal.compiler.tir.expr import (
    Binary,
    Call,
    Cast,
    Expr,
    FloatImm,
    IntImm,
    maximum,
    minimum,
)
from daedal.compiler.tir.intrinsics import call
from daedal.compiler.tir.visit import rewrite

__all__ = ["without_narrow_casts"]


def without_narrow_casts(formula: Expr) -> Expr:
    """The formula, where floats are made of an integer before it becomes a narrower one."""

    def visit(node: Expr) -> Expr | None:
        if not isinstance(node, Cast) or not is_float(node.dtype):
            return None
        inner = node.value
        rounded = _in_reals(inner) if node.dtype == "float32" else None
        if rounded is not None:
            return rounded
        if not isinstance(inner, Cast) or not is_integer(inner.dtype):
            return None
        given = _bounds(inner.value)
        if given is None:
            return None
        low, high = limits(inner.dtype)
        if low <= given[0] and given[1] <= high:
            return without_narrow_casts(Cast(node.dtype, inner.value))
        return None

    return rewrite(formula, visit)


_REAL = {"nearest_product": "rounded_product", "nearest_scaled": "rounded_scaled"}
"""Functions that give the same as float32."""


def _in_reals(expr: Expr) -> Expr | None:
    """A product that is rounded, and bounded, as float32, whose numbers are all exact; None for
    others."""
    zero = 0
    match expr:
        case Binary("+", inner, IntImm(number)):
            expr, zero = inner, number
    match expr:
        case Binary("min", Binary("max", Call(name, args), IntImm(low)), IntImm(high)) if (
            name in _REAL
        ):
            whole = call(_REAL[name], tuple(without_narrow_casts(item) for item in args))
            moved = whole + FloatImm(float(zero), "float32") if zero else whole
            ends = (FloatImm(float(end + zero), "float32") for end in (low, high))
            return minimum(maximum(moved, next(ends)), next(ends))
    return None


def _bounds(expr: Expr) -> tuple[int, int] | None:
    """The smallest and the largest value of an integer; None for what is no integer, or wraps."""
    if not is_integer(expr.dtype):
        return None
    low, high = limits(expr.dtype)
    if isinstance(expr, IntImm):
        return expr.value, expr.value
    if isinstance(expr, Binary) and expr.op in ("min", "max", "+", "-"):
        a, b = _bounds(expr.a), _bounds(expr.b)
        if a is None or b is None:
            return None
        if expr.op in ("min", "max"):
            choose = min if expr.op == "min" else max
            return choose(a[0], b[0]), choose(a[1], b[1])
        found = (a[0] + b[0], a[1] + b[1]) if expr.op == "+" else (a[0] - b[1], a[1] - b[0])
        return found if low <= found[0] and found[1] <= high else None
    return low, high
