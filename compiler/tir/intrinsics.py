"""Scalar intrinsics: functions that expressions may call, with their numpy definition."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from daedal.compiler.tir.dtype import is_integer
from daedal.compiler.tir.errors import ExpressionError
from daedal.compiler.tir.expr import Call, Expr
from daedal.isa import numerics

__all__ = ["INTRINSICS", "Intrinsic", "call"]


@dataclass(frozen=True)
class Intrinsic:
    """`evaluate` maps one numpy array per parameter to one; `integer` says what it works on."""

    name: str
    parameters: tuple[str, ...]
    integer: bool
    evaluate: Callable[..., Any]


def _table(*entries: Intrinsic) -> dict[str, Intrinsic]:
    return {entry.name: entry for entry in entries}


INTRINSICS = _table(
    Intrinsic(
        "requantize",
        ("acc", "bias", "multiplier", "shift", "zero_point", "low", "high"),
        True,
        numerics.requantize,
    ),
    Intrinsic("shift_right_even", ("value", "amount"), True, numerics.shift_right_even),
    Intrinsic("exp", ("value",), False, np.exp),
    Intrinsic("tanh", ("value",), False, np.tanh),
    Intrinsic("sqrt", ("value",), False, np.sqrt),
    Intrinsic("round", ("value",), False, np.rint),
)
"""Every intrinsic by name; `requantize` is the machine's own (`daedal.isa.numerics.requantize`)."""


def call(name: str, args: tuple[Expr, ...], dtype: str) -> Call:
    """A checked call of an intrinsic.

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
            "arguments, "
            f"not {len(args)}"
        )
    for parameter, arg in zip(intrinsic.parameters, args, strict=True):
        if is_integer(arg.dtype) != intrinsic.integer:
            kind = "an integer" if intrinsic.integer else "float32"
            raise ExpressionError(f"{parameter} of {name} must be {kind}, not {arg.dtype}")
    return Call(name, args, dtype)
