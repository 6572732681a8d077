"""The value of expressions, on numpy scalars or arrays: one definition for te and the loop IR.

Every node has the value of its own dtype. Integers wrap; ``//`` and ``%`` round to minus infinity
and give 0 where they divide by 0; shifts by the width or more give 0 (``>>``: the sign). Floats
round to nearest even after each operation. Float to integer truncates towards zero, then saturates;
not-a-number becomes the lowest integer, as onnxruntime quantizes it.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from daedal.compiler.tir.bfloat16 import BFLOAT16, bfloat16_bits, bfloat16_values
from daedal.compiler.tir.dtype import INDEX_DTYPE, is_integer, limits, numpy_dtype
from daedal.compiler.tir.expr import (
    And,
    Binary,
    Call,
    Cast,
    Compare,
    Expr,
    FloatImm,
    IntImm,
    Load,
    Not,
    Or,
    Select,
    Var,
)
from daedal.compiler.tir.intrinsics import INTRINSICS

__all__ = ["Array", "convert", "evaluate", "numpy_number"]

Array = Any
"""A numpy array or scalar; shapes broadcast."""

_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.true_divide,
    "//": np.floor_divide,
    "%": np.mod,
    "min": np.minimum,
    "max": np.maximum,
    "<<": np.left_shift,
    ">>": np.right_shift,
}

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
}


def evaluate(
    expr: Expr, env: Mapping[Var, Array], read: Callable[[Load, list[Array]], Array]
) -> Array:
    """The value of `expr` where `env` binds its variables.

    Parameters
    ----------
    env
        Integers, or integer arrays that broadcast against each other.
    read
        Gives the value of a load from the values of its indices.
    """
    # numpy warns of what is meant here: wrapping, infinities, division by 0.
    with np.errstate(all="ignore"):
        return _value(expr, env, read)


def _value(
    expr: Expr, env: Mapping[Var, Array], read: Callable[[Load, list[Array]], Array]
) -> Array:
    def value(node: Expr) -> Array:
        match node:
            case Var():
                return env[node]
            case IntImm(constant, dtype):
                # A Python integer takes the dtype of what it meets: indices stay cheap.
                return constant if dtype == INDEX_DTYPE else numpy_dtype(dtype).type(constant)
            case FloatImm(constant, dtype):
                return numpy_number(constant, dtype)
            case Binary(op, a, b):
                return _typed(_BINARY[op](value(a), value(b)), node.dtype)
            case Compare(op, a, b):
                return _COMPARE[op](value(a), value(b))
            case And(a, b):
                return np.logical_and(value(a), value(b))
            case Or(a, b):
                return np.logical_or(value(a), value(b))
            case Not(a):
                return np.logical_not(value(a))
            case Select(condition, true, false):
                return _typed(np.where(value(condition), value(true), value(false)), node.dtype)
            case Cast(dtype, inner):
                return convert(np.asarray(value(inner)), inner.dtype, dtype)
            case Load(_, indices):
                return read(node, [value(index) for index in indices])
            case Call(name, args, dtype):
                return _converted(np.asarray(INTRINSICS[name].evaluate(*map(value, args))), dtype)
        raise AssertionError(f"cannot evaluate {node!r}")

    return value(expr)


def _typed(result: Array, dtype: str) -> Array:
    """`result` in the dtype of its node: where only indices met, numpy has chosen another one."""
    return np.asarray(result).astype(numpy_dtype(dtype), copy=False)


def numpy_number(number: float, dtype: str) -> Array:
    """A constant of `dtype` in numpy."""
    if dtype == BFLOAT16:
        return bfloat16_bits(number)[()]
    return numpy_dtype(dtype).type(number)


def convert(array: Array, source: str, dtype: str) -> Array:
    """An array of dtype `source` as `dtype`."""
    if source == dtype:
        return array
    if source == BFLOAT16:
        array = bfloat16_values(array)
    return bfloat16_bits(array) if dtype == BFLOAT16 else _converted(array, dtype)


def _converted(array: Array, dtype: str) -> Array:
    """`array` as `dtype`, in the way that the module says."""
    if array.dtype.kind != "f" or not is_integer(dtype):
        return array.astype(numpy_dtype(dtype), copy=False)
    low, high = limits(dtype)
    whole = np.trunc(array.astype(np.float64))
    # 2**63 - 1 is no float64: values from 2**63 on are sorted out before they are converted.
    inside = (whole >= float(low)) & (whole < float(high + 1))
    result = np.where(inside, whole, float(low)).astype(numpy_dtype(dtype))
    result[...] = np.where(whole >= float(high + 1), high, result)
    result[...] = np.where(whole < float(low), low, result)
    return result
