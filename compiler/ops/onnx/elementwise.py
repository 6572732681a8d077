"""Operators that compute each element of the result from one element of each operand.

Source: ONNX, operators of the same names; broadcasting as "Multidirectional Broadcasting".
Activations are in `daedal.compiler.ops.onnx.activations`.
"""

import math
from collections.abc import Callable, Mapping

from daedal.compiler import te
from daedal.compiler.ops.onnx.operation import Lowering, Operand, Operation
from daedal.compiler.ops.onnx.pointwise import apply, few, pointwise, variadic
from daedal.compiler.tir.dtype import is_float, is_integer
from daedal.compiler.tir.expr import Expr, FloatImm, as_expr

__all__ = ["LOWERINGS"]

MAX_EXPONENT = 64
"""Largest constant exponent that becomes multiplications."""


def _negative(x: Expr) -> Expr:
    # 0 - x would be +0 where x is +0.
    return x * -1.0 if is_float(x.dtype) else -x


def _sign(x: Expr) -> Expr:
    # The innermost case leaves 0 and not-a-number as they are.
    below = te.select(x < 0, -1, x) if not x.dtype.startswith("u") else x
    return te.select(x > 0, 1, below)


def _signs_differ(a: Expr, b: Expr) -> Expr:
    return te.bit_xor(a, b) < 0


def _divide(a: Expr, b: Expr) -> Expr:
    """Integers: ``//`` rounds down, ONNX towards zero."""
    if is_float(a.dtype):
        return a / b
    quotient = a // b
    if a.dtype.startswith("u"):
        return quotient
    inexact = te.ne(quotient * b, a)
    return quotient + te.select(inexact & _signs_differ(a, b), as_expr(1, a.dtype), 0)


def _modulo(a: Expr, b: Expr) -> Expr:
    """The remainder that has the sign of the divisor."""
    if is_integer(a.dtype):
        return a % b
    rest = te.fmod(a, b)
    return te.select(te.ne(rest, 0) & te.ne(rest < 0, b < 0), rest + b, rest)


def _remainder(a: Expr, b: Expr) -> Expr:
    """The remainder that has the sign of the dividend."""
    if is_float(a.dtype):
        return te.fmod(a, b)
    rest = a % b
    if a.dtype.startswith("u"):
        return rest
    return te.select(te.ne(rest, 0) & _signs_differ(a, b), rest - b, rest)


def _lower_mod(operation: Operation) -> list[te.Tensor]:
    truncated = operation.node.integer("fmod", 0)
    a, b = operation.operand(0), operation.operand(1)
    return apply(operation, _remainder if truncated else _modulo, a, b)


def _lower_shift(operation: Operation) -> list[te.Tensor]:
    direction = operation.node.text("direction", "")
    if direction not in ("LEFT", "RIGHT"):
        raise operation.node.damaged(f"direction must be LEFT or RIGHT, not {direction!r}")
    a, b = operation.operand(0), operation.operand(1)
    return apply(operation, lambda x, y: x << y if direction == "LEFT" else x >> y, a, b)


def _lower_pow(operation: Operation) -> list[te.Tensor]:
    """The result has the base's dtype.

    A constant whole exponent from 0 to `MAX_EXPONENT` becomes multiplications. Those of integers
    wrap; those of narrow floats are in float64, so that the result is rounded once, as `te.pow` is.
    Other powers of integers are computed in float64 and converted (exact below 2^53).
    """
    base, exponent = operation.operand(0), operation.operand(1)
    count = _whole_exponent(exponent)
    if count is not None and (base.dtype != "float64" or count <= 2):
        narrow = base.dtype in ("float16", "float32") and count > 2
        work = "float64" if narrow else base.dtype
        return apply(
            operation,
            lambda x, _: _product(x.astype(work), count).astype(base.dtype),
            base,
            exponent,
        )
    floats = [item.dtype for item in (base, exponent) if is_float(item.dtype)]
    widest = (
        "float64" if is_integer(base.dtype) else max(floats, key=_FLOATS.index, default="float64")
    )
    return apply(
        operation,
        lambda x, y: te.pow(x.astype(widest), y.astype(widest)).astype(base.dtype),
        base,
        exponent,
    )


_FLOATS = ("float16", "float32", "float64")


def _whole_exponent(exponent: Operand) -> int | None:
    """The value of a constant of one element, where it is whole and not too large."""
    known = exponent.constant
    if known is None or known.size != 1 or not 0 <= known.item() <= MAX_EXPONENT:
        return None
    return int(known.item()) if known.item() == int(known.item()) else None


def _product(x: Expr, count: int) -> Expr:
    """`x` to the power of `count`, by squaring."""
    if count == 0:
        return as_expr(1, x.dtype)
    half = x if count == 1 else _product(x, count // 2)
    if count == 1:
        return half
    return half * half * x if count % 2 else half * half


def _lower_clip(operation: Operation) -> list[te.Tensor]:
    """Bounds are attributes below opset 11, optional operands of one element from there on."""
    x = operation.operand(0)
    if operation.opset >= 11:
        low, high = operation.optional(1), operation.optional(2)
        return apply(operation, lambda value: _between(value, low, high), x)
    largest = 3.4028234663852886e38
    bounds = [operation.node.real("min", -largest), operation.node.real("max", largest)]
    return apply(operation, lambda value: te.clip(value, bounds[0], bounds[1]), x)


def _between(value: Expr, low: Operand | None, high: Operand | None) -> Expr:
    """ONNX: where `low` is above `high`, all elements become `high`."""
    if low is not None:
        value = te.maximum(value, low[(0,) * low.rank])
    return value if high is None else te.minimum(value, high[(0,) * high.rank])


def _lower_mean(operation: Operation) -> list[te.Tensor]:
    count = max(len(operation.operands), 1)
    operands = [operation.operand(index) for index in range(count)]

    def mean(first: Expr, *others: Expr) -> Expr:
        total = first
        for other in others:
            total = total + other
        return total / count

    return apply(operation, mean, *few(operation, lambda a, b: a + b, operands))


def _lower_is_infinite(operation: Operation) -> list[te.Tensor]:
    ends = {
        -math.inf: operation.node.integer("detect_negative", 1),
        math.inf: operation.node.integer("detect_positive", 1),
    }

    def test(x: Expr) -> Expr:
        hits = [te.eq(x, FloatImm(end, x.dtype)) for end, wanted in ends.items() if wanted]
        if not hits:
            return as_expr(0, "bool")
        return hits[0] if len(hits) == 1 else hits[0] | hits[1]

    return apply(operation, test, operation.operand(0))


_UNARY: Mapping[str, Callable[[Expr], Expr]] = {
    "Abs": te.abs,
    "Acos": te.acos,
    "Acosh": te.acosh,
    "Asin": te.asin,
    "Asinh": te.asinh,
    "Atan": te.atan,
    "Atanh": te.atanh,
    "BitwiseNot": te.bit_not,
    "Ceil": te.ceil,
    "Cos": te.cos,
    "Cosh": te.cosh,
    "Erf": te.erf,
    "Exp": te.exp,
    "Floor": te.floor,
    "Identity": lambda x: x,
    "IsNaN": lambda x: te.ne(x, x),
    "Log": te.log,
    "Neg": _negative,
    "Not": lambda x: ~x,
    "Reciprocal": lambda x: as_expr(1, x.dtype) / x,
    "Round": te.round,
    "Sign": _sign,
    "Sin": te.sin,
    "Sinh": te.sinh,
    "Sqrt": te.sqrt,
    "Tan": te.tan,
}

_BINARY: Mapping[str, Callable[[Expr, Expr], Expr]] = {
    "Add": lambda a, b: a + b,
    "And": lambda a, b: a & b,
    "BitwiseAnd": te.bit_and,
    "BitwiseOr": te.bit_or,
    "BitwiseXor": te.bit_xor,
    "Div": _divide,
    "Equal": te.eq,
    "Greater": lambda a, b: a > b,
    "GreaterOrEqual": lambda a, b: a >= b,
    "Less": lambda a, b: a < b,
    "LessOrEqual": lambda a, b: a <= b,
    "Mul": lambda a, b: a * b,
    "Or": lambda a, b: a | b,
    "Sub": lambda a, b: a - b,
    "Xor": te.ne,
}

_VARIADIC: Mapping[str, Callable[[Expr, Expr], Expr]] = {
    "Max": te.maximum,
    "Min": te.minimum,
    "Sum": lambda a, b: a + b,
}

LOWERINGS: Mapping[str, Lowering] = {
    **{op_type: pointwise(1, formula) for op_type, formula in _UNARY.items()},
    **{op_type: pointwise(2, formula) for op_type, formula in _BINARY.items()},
    **{op_type: variadic(formula) for op_type, formula in _VARIADIC.items()},
    "BitShift": _lower_shift,
    "Clip": _lower_clip,
    "IsInf": _lower_is_infinite,
    "Mean": _lower_mean,
    "Mod": _lower_mod,
    "Pow": _lower_pow,
    "Where": pointwise(3, te.select),
}
"""By operator."""
