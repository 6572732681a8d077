"""The value of expressions, on numpy scalars or arrays: one definition for te and the loop IR.

Integers wrap at the width of their dtype; ``//`` and ``%`` round to minus infinity; float to
integer truncates; shifts by the width or more are not defined.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from daedal.compiler.tir.dtype import INDEX_DTYPE, numpy_dtype
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

__all__ = ["Array", "evaluate"]

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
        int64 arrays (or ints) that broadcast against each other.
    read
        Gives the value of a load from the values of its indices.

    Literals and variables of the index dtype stay Python ints or int64, so that they take the
    width of what they are combined with; a store brings the result back to its dtype.
    """

    def value(node: Expr) -> Array:
        match node:
            case Var():
                return env[node]
            case IntImm(constant, dtype):
                return constant if dtype == INDEX_DTYPE else numpy_dtype(dtype).type(constant)
            case FloatImm(constant):
                return np.float32(constant)
            case Binary(op, a, b):
                # numpy warns of overflow for scalars only; arrays wrap silently, as meant here.
                with np.errstate(over="ignore"):
                    return _BINARY[op](value(a), value(b))
            case Compare(op, a, b):
                return _COMPARE[op](value(a), value(b))
            case And(a, b):
                return np.logical_and(value(a), value(b))
            case Or(a, b):
                return np.logical_or(value(a), value(b))
            case Not(a):
                return np.logical_not(value(a))
            case Select(condition, true, false):
                return np.where(value(condition), value(true), value(false))
            case Cast(dtype, inner):
                return np.asarray(value(inner)).astype(numpy_dtype(dtype))
            case Load(_, indices):
                return read(node, [value(index) for index in indices])
            case Call(name, args, dtype):
                result = INTRINSICS[name].evaluate(*(value(arg) for arg in args))
                return np.asarray(result).astype(numpy_dtype(dtype))
        raise AssertionError(f"cannot evaluate {node!r}")

    return value(expr)
