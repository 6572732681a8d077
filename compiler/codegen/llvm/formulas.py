"""What a formula says of the values that it gives, and of the places that it reads."""

from collections.abc import Mapping, Sequence

from daedal.compiler.codegen.llvm.approximations import NORMAL_EXPONENTS
from daedal.compiler.tir.dtype import is_integer
from daedal.compiler.tir.expr import (
    Binary,
    Call,
    Cast,
    Compare,
    Expr,
    FloatImm,
    IntImm,
    Load,
    Var,
)
from daedal.compiler.tir.linear import accessed_element, simplify
from daedal.compiler.tir.visit import free_vars, loads, substitute

__all__ = ["decided", "follows", "has_normal_power", "is_no_negative_zero", "is_whole", "quotient"]


def decided(condition: Expr, values: Mapping[Var, str | int]) -> bool | None:
    """Whether an equality holds, where the numbers among `values` tell; else None."""
    if not isinstance(condition, Compare) or condition.op != "==" or loads(condition):
        return None
    known: dict[Var, Expr] = {}
    for var in free_vars(condition):
        number = values.get(var)
        if not isinstance(number, int):
            return None
        known[var] = IntImm(number)
    match tuple(simplify(substitute(side, known)) for side in (condition.a, condition.b)):
        case IntImm(left), IntImm(right):
            return left == right
    return None


def is_whole(expr: Expr) -> bool:
    """Whether a float has no fraction, as its formula says; it may be infinite, or no number."""
    match expr:
        case FloatImm(number, _):
            return number.is_integer()
        case Cast(_, inner):
            return is_integer(inner.dtype)
        case Binary("+" | "-", a, b):
            return is_whole(a) and is_whole(b)
    return isinstance(expr, Call) and expr.name in ("round", "rounded_quotient")


def is_no_negative_zero(expr: Expr) -> bool:
    """Whether vectors of float32 have no -0 in a place, as its formula says."""
    return isinstance(expr, Call) and expr.name == "rounded_quotient" and expr.dtype == "float32"


def quotient(expr: Expr) -> tuple[Sequence[Expr], int] | None:
    """The arguments of a rounded quotient of float32, and the whole number that is added to it;
    None for other formulas."""
    added = 0.0
    match expr:
        case Binary("+", inner, FloatImm(number) | Cast("float32", IntImm(number))):
            expr, added = inner, float(number)
    match expr:
        case Call("rounded_quotient", args, "float32") if added.is_integer():
            return args, int(added)
    return None


def has_normal_power(x: Expr) -> bool:
    """Whether `x` is limited to where e to its power is a normal float32 number."""
    least, most = NORMAL_EXPONENTS
    match x:
        case Binary("min", Binary("max", _, FloatImm(low)), FloatImm(high)):
            return least <= low and high <= most
    return False


def follows(first: Load, second: Load) -> bool:
    """Whether `second` reads the element after that of `first`."""
    if first.buffer is not second.buffer:
        return False
    places = [accessed_element(load) for load in (first, second)]
    return places[0].terms == places[1].terms and places[1].constant == places[0].constant + 1
