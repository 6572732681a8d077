"""Scalar intrinsics: functions that expressions may call, with their numpy definition.

They are all in the table `INTRINSICS`. A back end that computes one differently from numpy
documents that. A float function is evaluated in float64 and rounded once to its argument's dtype.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from daedal.compiler.integer.row_functions import shift_right_by
from daedal.compiler.tir.bfloat16 import BFLOAT16
from daedal.compiler.tir.dtype import check_dtype, is_float, is_integer
from daedal.compiler.tir.errors import ExpressionError
from daedal.compiler.tir.expr import Call, Expr
from daedal.isa import numerics

__all__ = ["INTRINSICS", "Intrinsic", "call"]


@dataclass(frozen=True)
class Intrinsic:
    """A function of scalars.

    Parameters
    ----------
    kind
        What it works on: "integer", "float" or "number", which is either.
    evaluate
        Maps one numpy array per parameter to one; arrays broadcast.
    uniform
        Whether arguments and result have one dtype; else the caller chooses that of the result.
    constants
        The dtype of constants among the arguments, as text leaves it out; None: that of the others.
    """

    name: str
    parameters: tuple[str, ...]
    kind: str
    evaluate: Callable[..., Any]
    uniform: bool = True
    constants: str | None = None


def _in_float64(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` of float64 values; the caller rounds the result."""
    return lambda *args: function(*(np.asarray(arg, dtype=np.float64) for arg in args))


def _sigmoid(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    # The exponential of a negative number alone: nothing overflows on either side.
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1.0, small) / (1.0 + small))


def _float(name: str, function: Callable[..., Any], *parameters: str) -> Intrinsic:
    return Intrinsic(name, parameters or ("value",), "float", _in_float64(function))


def _integer(name: str, function: Callable[..., Any], *parameters: str) -> Intrinsic:
    return Intrinsic(name, parameters, "integer", function)


def _dot(*elements: Any) -> npt.NDArray[np.int32]:
    """The sum of the products of the first half with the second."""
    factors = [np.asarray(item).astype(np.int32) for item in elements]
    count = len(factors) // 2
    total = factors[0] * factors[count]
    for a, b in zip(factors[1:count], factors[count + 1 :], strict=True):
        total = total + a * b
    return np.asarray(total)


def _nearest_product(value: Any, high: Any, low: Any = 0.0) -> npt.NDArray[np.int32]:
    """A value times the sum of two factors, rounded half to even."""
    factor = np.asarray(high, np.float64) + np.asarray(low, np.float64)
    return np.asarray(np.rint(np.asarray(value, np.float64) * factor), np.int32)


def _rounded_quotient(value: Any, divisor: Any, _high: Any, _low: Any) -> npt.NDArray[Any]:
    """A quotient, rounded to a float and then to a whole number, half to even."""
    with np.errstate(all="ignore"):
        return np.asarray(np.rint(np.asarray(value) / np.asarray(divisor)))


def _dot_product(name: str, count: int) -> Intrinsic:
    parameters = tuple(f"{factor}{number}" for factor in "ab" for number in range(count))
    return Intrinsic(name, parameters, "integer", _dot, uniform=False)


def _table(*entries: Intrinsic) -> dict[str, Intrinsic]:
    return {entry.name: entry for entry in entries}


DOT_PRODUCTS = {"dot_pairs": 2, "dot_quads": 4}
"""Intrinsics that add products, and how many."""

INTRINSICS = _table(
    Intrinsic(
        "requantize",
        ("acc", "bias", "multiplier", "shift", "zero_point", "low", "high"),
        "integer",
        numerics.requantize,
        uniform=False,
        constants="int64",
    ),
    Intrinsic(
        "shift_right_even", ("value", "amount"), "integer", numerics.shift_right_even, uniform=False
    ),
    Intrinsic(
        "nearest_product", ("value", "high", "low"), "float", _nearest_product, uniform=False
    ),
    Intrinsic("nearest_scaled", ("value", "factor"), "float", _nearest_product, uniform=False),
    Intrinsic("rounded_quotient", ("value", "divisor", "high", "low"), "float", _rounded_quotient),
    *(_dot_product(name, count) for name, count in DOT_PRODUCTS.items()),
    _integer("shift_even", shift_right_by, "value", "amount"),
    Intrinsic("abs", ("value",), "number", np.abs),
    _integer("bit_and", np.bitwise_and, "a", "b"),
    _integer("bit_or", np.bitwise_or, "a", "b"),
    _integer("bit_xor", np.bitwise_xor, "a", "b"),
    _integer("bit_not", np.bitwise_not, "value"),
    # numpy counts the ones of the absolute value: the two's complement needs an unsigned view.
    _integer("popcount", lambda x: np.bitwise_count(_unsigned(x)), "value"),
    _float("exp", np.exp),
    _float("log", np.log),
    _float("tanh", np.tanh),
    _float("sigmoid", _sigmoid),
    _float("sin", np.sin),
    _float("cos", np.cos),
    _float("tan", np.tan),
    _float("asin", np.arcsin),
    _float("acos", np.arccos),
    _float("atan", np.arctan),
    _float("sinh", np.sinh),
    _float("cosh", np.cosh),
    _float("asinh", np.arcsinh),
    _float("acosh", np.arccosh),
    _float("atanh", np.arctanh),
    _float("erf", np.vectorize(math.erf, otypes=[np.float64])),
    _float("sqrt", np.sqrt),
    _float("rsqrt", lambda x: 1.0 / np.sqrt(x)),
    _float("pow", np.power, "base", "exponent"),
    _float("fmod", np.fmod, "dividend", "divisor"),
    _float("number_or", lambda x, other: np.where(np.isnan(x), other, x), "value", "other"),
    _float("multiply_add", lambda a, b, c: a * b + c, "a", "b", "c"),
    _float("rounded_product", lambda x, a, b: np.rint(x * (a + b)), "value", "high", "low"),
    _float("rounded_scaled", lambda x, a: np.rint(x * a), "value", "factor"),
    _float("floor", np.floor),
    _float("ceil", np.ceil),
    _float("trunc", np.trunc),
    _float("round", np.rint),
    Intrinsic("nearest", ("value",), "float", lambda x: np.rint(x).astype(np.int32), uniform=False),
)
"""Every intrinsic by name.

`requantize`, `shift_right_even` and `shift_even` are the machine's own (`daedal.isa.numerics`,
`daedal.compiler.integer.row_functions`), the last one for accumulators of 32 bits; `dot_pairs` is
``a0 * b0 + a1 * b1`` of int16 as int32, `dot_quads` the same of four uint8 and four int8, which
processors do in one instruction; `nearest_product` is ``value * (high + low)`` of three float32,
the first one whole, rounded half to even: below 2^21, and no tie, nor within 2^-24 of one unless
its fraction has at most 24 bits (`native.bodies.nearest_products`), and `rounded_product` is the
same as a float32; `nearest_scaled` and `rounded_scaled` have one factor, and their product may be
anything below 2^21; `rounded_quotient` is ``round(value / divisor)`` of float32, where `high` and
`low` are parts of ``1 / divisor`` whose products give the same (`compiler.cpu.reciprocals`);
`multiply_add` is ``a * b + c``, rounded once or twice as the processor does it, though no product
of float16 overflows; `round` takes halves to even, and `nearest` gives that as an int32, which must
hold it; `abs` of the smallest integer is itself; `fmod` has its dividend's sign, as C's;
`number_or` is `other` where its value is NaN.
"""


def call(name: str, args: tuple[Expr, ...], dtype: str | None = None) -> Call:
    """A checked call of an intrinsic; its dtype is that of its first argument where None.

    Raises
    ------
    ExpressionError
        For an unknown name, a wrong number of arguments, or arguments of the wrong kind.
    """
    if name not in INTRINSICS:
        raise ExpressionError(f"an intrinsic must be one of {', '.join(INTRINSICS)}, not {name!r}")
    intrinsic = INTRINSICS[name]
    if len(args) != len(intrinsic.parameters):
        raise ExpressionError(
            f"{name} needs {', '.join(intrinsic.parameters)}: {len(intrinsic.parameters)} "
            f"arguments, not {len(args)}"
        )
    for parameter, arg in zip(intrinsic.parameters, args, strict=True):
        _check_kind(intrinsic, parameter, arg.dtype)
    result = check_dtype(dtype or args[0].dtype)
    if intrinsic.uniform and any(arg.dtype != result for arg in args):
        found = " and ".join(dict.fromkeys((*(arg.dtype for arg in args), result)))
        raise ExpressionError(
            f"arguments and result of {name} must have one dtype, not {found}; convert with astype"
        )
    return Call(name, args, result)


def _check_kind(intrinsic: Intrinsic, parameter: str, dtype: str) -> None:
    allowed = {"integer": is_integer(dtype), "float": is_float(dtype) and dtype != BFLOAT16}
    allowed["number"] = any(allowed.values())
    if not allowed[intrinsic.kind]:
        article = "an" if intrinsic.kind == "integer" else "a"
        raise ExpressionError(
            f"{parameter} of {intrinsic.name} must be {article} {intrinsic.kind}, not {dtype}; "
            "convert with astype"
        )


def _unsigned(x: Any) -> npt.NDArray[Any]:
    array = np.asarray(x)
    return array.view(np.dtype(f"u{array.dtype.itemsize}"))
