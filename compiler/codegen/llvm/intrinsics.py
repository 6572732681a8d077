"""The functions of the loop IR's table in LLVM's text.

The common functions of float32 are polynomials (`approximations`). For others LLVM's own functions
are used where it has them; on scalars they become calls of the C library, and on vectors a call per
lane. Results may differ from the definition (float64, rounded once) in the last place or two.
"""

from collections.abc import Callable

from daedal.common.errors import UnsupportedError
from daedal.compiler.codegen.llvm.approximations import APPROXIMATIONS
from daedal.compiler.codegen.llvm.scalars import (
    Value,
    arithmetic,
    compared,
    constant,
    converted,
    llvm_type,
    splat,
    suffix,
)
from daedal.compiler.tir.dtype import is_float
from daedal.compiler.tir.intrinsics import DOT_PRODUCTS
from daedal.native.function_text import FunctionText

__all__ = ["called", "is_lowered"]

_SAME_NAME = frozenset(
    [
        "exp",
        "exp2",
        "log",
        "log2",
        "pow",
        "sqrt",
        "floor",
        "ceil",
        "trunc",
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "tanh",
    ]
)
_LIBRARY = frozenset(("erf", "asinh", "acosh", "atanh"))
_BITS = {"bit_and": "and", "bit_or": "or", "bit_xor": "xor"}


def is_lowered(name: str) -> bool:
    """Whether this back end has the intrinsic."""
    known = _SAME_NAME | _LIBRARY | _BITS.keys() | _OWN.keys() | DOT_PRODUCTS.keys()
    return name in known


def called(text: FunctionText, name: str, arguments: list[Value], dtype: str) -> Value:
    """The value of an intrinsic of arguments of equal lanes. Raises UnsupportedError."""
    first = arguments[0]
    if name in _BITS:
        return Value(text.value(f"{_BITS[name]} {first}, {arguments[1].text}"), dtype, first.lanes)
    if name in _OWN:
        return _OWN[name](text, arguments)
    if not is_lowered(name):
        raise UnsupportedError(
            f"an intrinsic that is compiled for a processor must be one that its code generator "
            f"has, not {name!r}; it is interpreted"
        )
    if dtype == "float16":
        wide = [converted(text, item, "float32") for item in arguments]
        return converted(text, called(text, name, wide, "float32"), "float16")
    if name in APPROXIMATIONS and dtype == "float32":
        return APPROXIMATIONS[name](text, first)
    if name in _LIBRARY:
        return _library(text, name, first)
    return _llvm(text, name, arguments)


def _llvm(text: FunctionText, name: str, arguments: list[Value]) -> Value:
    first = arguments[0]
    given = ", ".join(map(str, arguments))
    full = f"llvm.{name}{suffix(first.dtype, first.lanes)}"
    return Value(text.value(f"call {first.type} @{full}({given})"), first.dtype, first.lanes)


def _library(text: FunctionText, name: str, value: Value) -> Value:
    """A call of the C library, lane by lane."""
    symbol = name if value.dtype == "float64" else f"{name}f"
    scalar = llvm_type(value.dtype)
    if not value.lanes:
        return Value(text.value(f"call {scalar} @{symbol}({value})"), value.dtype)
    result = "poison"
    for lane in range(value.lanes):
        one = text.value(f"extractelement {value}, i64 {lane}")
        done = text.value(f"call {scalar} @{symbol}({scalar} {one})")
        result = text.value(f"insertelement {value.type} {result}, {scalar} {done}, i64 {lane}")
    return Value(result, value.dtype, value.lanes)


def _abs(text: FunctionText, arguments: list[Value]) -> Value:
    value = arguments[0]
    if is_float(value.dtype):
        return _llvm(text, "fabs", [value])
    if value.dtype.startswith("u"):
        return value
    name = f"llvm.abs{suffix(value.dtype, value.lanes)}"
    return Value(
        text.value(f"call {value.type} @{name}({value}, i1 false)"), value.dtype, value.lanes
    )


def _bit_not(text: FunctionText, arguments: list[Value]) -> Value:
    value = arguments[0]
    ones = splat(constant(-1, value.dtype), value.lanes)
    return Value(text.value(f"xor {value}, {ones.text}"), value.dtype, value.lanes)


def _popcount(text: FunctionText, arguments: list[Value]) -> Value:
    return _llvm(text, "ctpop", arguments)


def _round(text: FunctionText, arguments: list[Value]) -> Value:
    return _llvm(text, "roundeven", arguments)


def _nearest(text: FunctionText, arguments: list[Value]) -> Value:
    value = arguments[0]
    kind = llvm_type("int32", value.lanes)
    name = f"llvm.lrint{suffix('int32', value.lanes)}{suffix(value.dtype, value.lanes)}"
    return Value(text.value(f"call {kind} @{name}({value})"), "int32", value.lanes)


def _rsqrt(text: FunctionText, arguments: list[Value]) -> Value:
    value = arguments[0]
    one = splat(constant(1.0, value.dtype), value.lanes)
    return arithmetic(text, "/", one, called(text, "sqrt", [value], value.dtype))


def _sigmoid(text: FunctionText, arguments: list[Value]) -> Value:
    """``1 / (1 + exp(-|x|))``, or ``exp(-|x|)`` times that: nothing overflows on either side."""
    value = arguments[0]
    if value.dtype == "float16":
        wide = _sigmoid(text, [converted(text, value, "float32")])
        return converted(text, wide, "float16")
    one = splat(constant(1.0, value.dtype), value.lanes)
    zero = splat(constant(0.0, value.dtype), value.lanes)
    size = _abs(text, [value])
    negative = arithmetic(text, "-", splat(constant(-0.0, value.dtype), value.lanes), size)
    small = called(text, "exp", [negative], value.dtype)
    positive = compared(text, ">=", value, zero)
    above = Value(text.value(f"select {positive}, {one}, {small}"), value.dtype, value.lanes)
    return arithmetic(text, "/", above, arithmetic(text, "+", one, small))


def _fmod(text: FunctionText, arguments: list[Value]) -> Value:
    left, right = arguments
    return Value(text.value(f"frem {left}, {right.text}"), left.dtype, left.lanes)


_OWN: dict[str, Callable[[FunctionText, list[Value]], Value]] = {
    "abs": _abs,
    "bit_not": _bit_not,
    "fmod": _fmod,
    "nearest": _nearest,
    "popcount": _popcount,
    "round": _round,
    "rsqrt": _rsqrt,
    "sigmoid": _sigmoid,
}
