"""The identity and the combining operation of each reduction."""

from daedal.compiler.tir.dtype import is_integer, limits
from daedal.compiler.tir.expr import Binary, Expr, FloatImm, IntImm, Or

__all__ = ["combine", "identity"]


def identity(op: str, dtype: str) -> Expr:
    """The neutral element of a reduction."""
    if op == "any":
        return IntImm(0, "bool")
    if op in ("sum", "prod"):
        neutral = int(op == "prod")
        return IntImm(neutral, dtype) if is_integer(dtype) else FloatImm(float(neutral), dtype)
    if is_integer(dtype):
        low, high = limits(dtype)
        return IntImm(low if op == "max" else high, dtype)
    return FloatImm(float("-inf") if op == "max" else float("inf"), dtype)


def combine(op: str, a: Expr, b: Expr) -> Expr:
    """One step of a reduction."""
    if op == "any":
        return Or(a, b)
    return Binary({"sum": "+", "prod": "*"}.get(op, op), a, b)
