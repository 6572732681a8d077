"""Functions of scalars, by the names of the table of intrinsics (`daedal.compiler.tir.intrinsics`).

Float functions take float16, float32 or float64 and give the same; `sum`, `max` and others that
reduce are in `daedal.compiler.te.ops`.
"""

from collections.abc import Sequence

from daedal.compiler.tir.dtype import check_dtype, is_integer, limits
from daedal.compiler.tir.errors import ExpressionError
from daedal.compiler.tir.expr import Expr, ExprLike, as_expr, maximum, minimum
from daedal.compiler.tir.intrinsics import call

__all__ = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "bit_and",
    "bit_not",
    "bit_or",
    "bit_xor",
    "ceil",
    "clip",
    "cos",
    "cosh",
    "dot_pairs",
    "dot_quads",
    "erf",
    "exp",
    "floor",
    "fmod",
    "log",
    "multiply_add",
    "nearest",
    "nearest_product",
    "nearest_scaled",
    "number_or",
    "popcount",
    "pow",
    "requantize",
    "round",
    "rounded_product",
    "rounded_quotient",
    "rounded_scaled",
    "rsqrt",
    "shift_even",
    "shift_right_even",
    "sigmoid",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
]


def requantize(
    acc: Expr,
    bias: ExprLike,
    multiplier: ExprLike,
    shift: ExprLike,
    zero_point: ExprLike,
    low: ExprLike,
    high: ExprLike,
    dtype: str = "int8",
) -> Expr:
    """``clip(rhe((acc + bias) * multiplier * 2^-shift) + zero_point, low, high)`` as `dtype`.

    Source: `daedal.isa.numerics.requantize`, the machine's own.
    """
    if not is_integer(check_dtype(dtype)):
        raise ExpressionError(f"requantize gives integers, not {dtype}; convert them with astype")
    ends = limits(dtype)
    for bound in (low, high):
        if isinstance(bound, int) and not ends[0] <= bound <= ends[1]:
            raise ExpressionError(f"bounds of requantize must fit {dtype}, not {bound}")
    args = tuple(
        as_expr(arg, "int64") for arg in (acc, bias, multiplier, shift, zero_point, low, high)
    )
    return call("requantize", args, dtype)


def shift_right_even(value: Expr, amount: ExprLike) -> Expr:
    """``value * 2^-amount``, halves to even; `amount` is 0 to 63."""
    return call("shift_right_even", (value, as_expr(amount, value.dtype)), value.dtype)


def shift_even(value: Expr, amount: ExprLike) -> Expr:
    """``value * 2^-amount``, halves to even, of int32; `amount` is -64 to 63, and a negative one
    shifts left."""
    return call("shift_even", (value, as_expr(amount, value.dtype)))


def dot_pairs(a: tuple[Expr, Expr], b: tuple[Expr, Expr]) -> Expr:
    """``a[0] * b[0] + a[1] * b[1]`` of int16 as int32, which wraps for four times -2**15 alone."""
    args = (*a, *b)
    if any(arg.dtype != "int16" for arg in args):
        raise ExpressionError("pairs must be int16; convert them with astype")
    return call("dot_pairs", args, "int32")


def dot_quads(a: Sequence[Expr], b: Sequence[Expr]) -> Expr:
    """``a[0] * b[0] + ... + a[3] * b[3]`` of four uint8 and four int8, as int32."""
    args, dtypes = (*a, *b), ["uint8"] * 4 + ["int8"] * 4
    if [arg.dtype for arg in args] != dtypes:
        raise ExpressionError("quads must be four uint8 and four int8; convert them with astype")
    return call("dot_quads", args, "int32")


def clip(value: Expr, low: ExprLike, high: ExprLike) -> Expr:
    """`value`, but at least `low` and at most `high`."""
    return minimum(maximum(value, low), high)


def abs(value: Expr) -> Expr:
    """The magnitude; of the smallest integer, itself."""
    return call("abs", (value,))


def bit_and(a: Expr, b: ExprLike) -> Expr:
    """Bits set in both integers."""
    return call("bit_and", (a, as_expr(b, a.dtype)))


def bit_or(a: Expr, b: ExprLike) -> Expr:
    """Bits set in either integer."""
    return call("bit_or", (a, as_expr(b, a.dtype)))


def bit_xor(a: Expr, b: ExprLike) -> Expr:
    """Bits set in just one of two integers."""
    return call("bit_xor", (a, as_expr(b, a.dtype)))


def bit_not(value: Expr) -> Expr:
    """Every bit of an integer inverted."""
    return call("bit_not", (value,))


def nearest(value: Expr) -> Expr:
    """The int32 nearest to `value`, halves to even; `value` must lie within its range."""
    return call("nearest", (value,), "int32")


def nearest_product(value: Expr, high: Expr, low: Expr) -> Expr:
    """The int32 nearest to a whole float32 times `high` and `low` together.

    It must be no tie, nor close to one (`compiler.tir.intrinsics`).
    """
    return call("nearest_product", (value, high, low), "int32")


def nearest_scaled(value: Expr, factor: Expr) -> Expr:
    """The int32 nearest to a whole float32 times another float32, halves to even."""
    return call("nearest_scaled", (value, factor), "int32")


def rounded_scaled(value: Expr, factor: Expr) -> Expr:
    """`nearest_scaled` as a float32."""
    return call("rounded_scaled", (value, factor))


def rounded_product(value: Expr, high: Expr, low: Expr) -> Expr:
    """`nearest_product` as a float32."""
    return call("rounded_product", (value, high, low))


def rounded_quotient(value: Expr, divisor: Expr, high: Expr, low: Expr) -> Expr:
    """``round(value / divisor)``; `high` and `low` are parts of the reciprocal."""
    return call("rounded_quotient", (value, divisor, high, low))


def multiply_add(a: Expr, b: Expr, c: Expr) -> Expr:
    """``a * b + c`` of floats, rounded once where the processor does that, else twice."""
    return call("multiply_add", (a, b, c))


def popcount(value: Expr) -> Expr:
    """How many bits of an integer are set, in two's complement."""
    return call("popcount", (value,))


def exp(value: Expr) -> Expr:
    """e to the power of `value`."""
    return call("exp", (value,))


def log(value: Expr) -> Expr:
    """The natural logarithm."""
    return call("log", (value,))


def tanh(value: Expr) -> Expr:
    """The hyperbolic tangent."""
    return call("tanh", (value,))


def sigmoid(value: Expr) -> Expr:
    """``1 / (1 + exp(-value))``."""
    return call("sigmoid", (value,))


def sin(value: Expr) -> Expr:
    """The sine of an angle in radians."""
    return call("sin", (value,))


def cos(value: Expr) -> Expr:
    """The cosine of an angle in radians."""
    return call("cos", (value,))


def tan(value: Expr) -> Expr:
    """The tangent of an angle in radians."""
    return call("tan", (value,))


def asin(value: Expr) -> Expr:
    """The angle in radians, from -pi/2 to pi/2, whose sine is `value`."""
    return call("asin", (value,))


def acos(value: Expr) -> Expr:
    """The angle in radians, from 0 to pi, whose cosine is `value`."""
    return call("acos", (value,))


def atan(value: Expr) -> Expr:
    """The angle in radians, from -pi/2 to pi/2, whose tangent is `value`."""
    return call("atan", (value,))


def sinh(value: Expr) -> Expr:
    """The hyperbolic sine."""
    return call("sinh", (value,))


def cosh(value: Expr) -> Expr:
    """The hyperbolic cosine."""
    return call("cosh", (value,))


def asinh(value: Expr) -> Expr:
    """The inverse of `sinh`."""
    return call("asinh", (value,))


def acosh(value: Expr) -> Expr:
    """The inverse of `cosh`, from 0 on."""
    return call("acosh", (value,))


def atanh(value: Expr) -> Expr:
    """The inverse of `tanh`."""
    return call("atanh", (value,))


def erf(value: Expr) -> Expr:
    """The error function, of which GELU consists."""
    return call("erf", (value,))


def sqrt(value: Expr) -> Expr:
    """The square root."""
    return call("sqrt", (value,))


def rsqrt(value: Expr) -> Expr:
    """``1 / sqrt(value)``."""
    return call("rsqrt", (value,))


def pow(base: Expr, exponent: ExprLike) -> Expr:
    """`base` to the power of `exponent`."""
    return call("pow", (base, as_expr(exponent, base.dtype)))


def fmod(dividend: Expr, divisor: ExprLike) -> Expr:
    """The remainder of a division that truncates towards zero; it has the dividend's sign."""
    return call("fmod", (dividend, as_expr(divisor, dividend.dtype)))


def number_or(value: Expr, other: ExprLike) -> Expr:
    """`value`, or `other` where it is NaN."""
    return call("number_or", (value, as_expr(other, value.dtype)))


def floor(value: Expr) -> Expr:
    """The largest integer not above, as a float."""
    return call("floor", (value,))


def ceil(value: Expr) -> Expr:
    """The smallest integer not below, as a float."""
    return call("ceil", (value,))


def trunc(value: Expr) -> Expr:
    """The nearest integer towards zero, as a float."""
    return call("trunc", (value,))


def round(value: Expr) -> Expr:
    """The nearest integer, halves to even, as a float."""
    return call("round", (value,))
