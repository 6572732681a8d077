"""Reductions over axes."""

from collections.abc import Sequence

from daedal.compiler.tir.errors import ExpressionError
from daedal.compiler.tir.expr import Axis, Expr, Reduce

__all__ = ["any", "max", "min", "prod", "reduce_axis", "sum"]


def reduce_axis(extent: int, name: str) -> Axis:
    """An axis to reduce over, from 0 to extent - 1."""
    return Axis(name, extent=extent, kind="reduce")


def sum(value: Expr, axis: Axis | Sequence[Axis]) -> Expr:
    """The sum over `axis`, in the dtype of `value` (integers wrap): widen with astype first."""
    return _reduce("sum", value, axis)


def max(value: Expr, axis: Axis | Sequence[Axis]) -> Expr:
    """The largest value over `axis`."""
    return _reduce("max", value, axis)


def min(value: Expr, axis: Axis | Sequence[Axis]) -> Expr:
    """The smallest value over `axis`."""
    return _reduce("min", value, axis)


def prod(value: Expr, axis: Axis | Sequence[Axis]) -> Expr:
    """The product over `axis`, in the dtype of `value` (integers wrap)."""
    return _reduce("prod", value, axis)


def any(value: Expr, axis: Axis | Sequence[Axis]) -> Expr:
    """Whether a bool `value` holds anywhere over `axis`."""
    return _reduce("any", value, axis)


def _reduce(op: str, value: Expr, axis: Axis | Sequence[Axis]) -> Expr:
    axes = (axis,) if isinstance(axis, Axis) else tuple(axis)
    if not axes or not all(isinstance(item, Axis) and item.kind == "reduce" for item in axes):
        raise ExpressionError(f"{op} needs at least one reduce_axis to reduce over")
    if (value.dtype == "bool") != (op == "any"):
        needed = "a bool" if op == "any" else "a number"
        raise ExpressionError(f"{op} reduces {needed}, not {value.dtype}; convert the value first")
    return Reduce(op, value, axes)
