"""The functions of the loop IR's table in LLVM's text.

The common functions of float32 are polynomials (`approximations`). For others LLVM's own functions
are used where it has them; on scalars they become calls of the C library, and on vectors a call per
lane. Results may differ from the definition (float64, rounded once) in the last place or two.
"""

from collections.abc import Callable
from functools import partial, reduce

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
    within,
)
from daedal.compiler.tir.dtype import is_float
from daedal.compiler.tir.intrinsics import DOT_PRODUCTS
from daedal.native.function_text import FunctionText

__all__ = [
    "Library",
    "by_lanes",
    "c_library",
    "called",
    "is_lowered",
    "is_per_lane",
    "nearest_quotient",
    "rounded_product",
]

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
_SELECTED = frozenset(("ceil", "exp2", "floor", "sqrt", "trunc"))
"""Functions that most processors, and GPUs, have instructions for."""
_LIBRARY = frozenset(("erf", "asinh", "acosh", "atanh"))
_BITS = {"bit_and": "and", "bit_or": "or", "bit_xor": "xor"}


def is_lowered(name: str) -> bool:
    """Whether this back end has the intrinsic."""
    known = _SAME_NAME | _LIBRARY | _BITS.keys() | _OWN.keys() | DOT_PRODUCTS.keys()
    return name in known


def is_per_lane(name: str, dtype: str) -> bool:
    """Whether a processor calls the C library for each lane of this function."""
    approximated = name in APPROXIMATIONS and dtype in ("float16", "float32")
    return name in (_SAME_NAME | _LIBRARY) - _SELECTED and not approximated


Library = Callable[[FunctionText, str, list[Value]], Value]
"""Writes a function of floats that has no code of its own here."""


def c_library(text: FunctionText, name: str, arguments: list[Value]) -> Value:
    """A function of floats as LLVM's or the C library's."""
    if name in _LIBRARY:
        return by_lanes(text, c_name(name, arguments[0].dtype), arguments)
    return _llvm(text, name, arguments)


def called(
    text: FunctionText,
    name: str,
    arguments: list[Value],
    dtype: str,
    library: Library = c_library,
) -> Value:
    """The value of an intrinsic of arguments of equal lanes, whose functions of floats are those of
    `library`. Raises UnsupportedError."""
    first = arguments[0]
    if name in _BITS:
        return Value(text.value(f"{_BITS[name]} {first}, {arguments[1].text}"), dtype, first.lanes)
    if name in _OWN:
        return _OWN[name](text, arguments, library)
    if not is_lowered(name):
        raise UnsupportedError(
            f"an intrinsic that is compiled for a processor must be one that its code generator "
            f"has, not {name!r}; it is interpreted"
        )
    if dtype == "float16":
        wide = [converted(text, item, "float32") for item in arguments]
        return converted(text, called(text, name, wide, "float32", library), "float16")
    if name in APPROXIMATIONS and dtype == "float32":
        return APPROXIMATIONS[name](text, first)
    if name in _SELECTED:
        return _llvm(text, name, arguments)
    return library(text, name, arguments)


def _llvm(text: FunctionText, name: str, arguments: list[Value]) -> Value:
    first = arguments[0]
    given = ", ".join(map(str, arguments))
    full = f"llvm.{name}{suffix(first.dtype, first.lanes)}"
    return Value(text.value(f"call {first.type} @{full}({given})"), first.dtype, first.lanes)


def c_name(name: str, dtype: str) -> str:
    """The C library's name of a function for this type."""
    return name if dtype == "float64" else f"{name}f"


def by_lanes(text: FunctionText, symbol: str, arguments: list[Value]) -> Value:
    """A call of a function of scalars, lane by lane."""
    first = arguments[0]
    scalar = llvm_type(first.dtype)
    if not first.lanes:
        given = ", ".join(map(str, arguments))
        return Value(text.value(f"call {scalar} @{symbol}({given})"), first.dtype)
    result = "poison"
    for lane in range(first.lanes):
        ones = [text.value(f"extractelement {item}, i64 {lane}") for item in arguments]
        given = ", ".join(f"{scalar} {one}" for one in ones)
        done = text.value(f"call {scalar} @{symbol}({given})")
        result = text.value(f"insertelement {first.type} {result}, {scalar} {done}, i64 {lane}")
    return Value(result, first.dtype, first.lanes)


def _abs(text: FunctionText, arguments: list[Value], _library: Library) -> Value:
    value = arguments[0]
    if is_float(value.dtype):
        return _llvm(text, "fabs", [value])
    if value.dtype.startswith("u"):
        return value
    name = f"llvm.abs{suffix(value.dtype, value.lanes)}"
    return Value(
        text.value(f"call {value.type} @{name}({value}, i1 false)"), value.dtype, value.lanes
    )


def _bit_not(text: FunctionText, arguments: list[Value], _library: Library) -> Value:
    value = arguments[0]
    ones = splat(constant(-1, value.dtype), value.lanes)
    return Value(text.value(f"xor {value}, {ones.text}"), value.dtype, value.lanes)


def _popcount(text: FunctionText, arguments: list[Value], _library: Library) -> Value:
    return _llvm(text, "ctpop", arguments)


def _round(text: FunctionText, arguments: list[Value], _library: Library) -> Value:
    return _llvm(text, "roundeven", arguments)


def _nearest(text: FunctionText, arguments: list[Value], library: Library) -> Value:
    value = arguments[0]
    if library is not c_library:  # GPUs have no lrint
        return converted(text, _round(text, arguments, library), "int32")
    kind = llvm_type("int32", value.lanes)
    name = f"llvm.lrint{suffix('int32', value.lanes)}{suffix(value.dtype, value.lanes)}"
    return Value(text.value(f"call {kind} @{name}({value})"), "int32", value.lanes)


_KINDS = {2: "scaled", 3: "product"}
"""Of functions that round products, by the number of their arguments."""


def _nearest_product(text: FunctionText, arguments: list[Value], library: Library) -> Value:
    """Of vectors by the processor's own body (`native.bodies.nearest_products`), else in
    float64; of one factor or of two."""
    value = arguments[0]
    if value.lanes and library is c_library:
        given = ", ".join(map(str, arguments))
        name = f"nearest_{_KINDS[len(arguments)]}.v{value.lanes}"
        kind = llvm_type("int32", value.lanes)
        return Value(text.value(f"call {kind} @{name}({given})"), "int32", value.lanes)
    wide, *factors = (converted(text, item, "float64") for item in arguments)
    factor = reduce(partial(arithmetic, text, "+"), factors)
    product = arithmetic(text, "*", wide, factor)
    return _nearest(text, [product], library)


def rounded_product(
    text: FunctionText, arguments: list[Value], added: float = 0.0, library: Library = c_library
) -> Value:
    """The nearest whole number as a float, plus `added`, a whole number: one operation where
    vectors do both."""
    value = arguments[0]
    if value.lanes and library is c_library:
        last = splat(constant(added, value.dtype), value.lanes)
        given = ", ".join(map(str, (*arguments, last)))
        name = f"rounded_{_KINDS[len(arguments)]}.v{value.lanes}"
        return Value(text.value(f"call {value.type} @{name}({given})"), value.dtype, value.lanes)
    found = converted(text, _nearest_product(text, arguments, library), value.dtype)
    if not added:
        return found
    return arithmetic(text, "+", found, splat(constant(added, value.dtype), value.lanes))


def _rounded_product(text: FunctionText, arguments: list[Value], library: Library) -> Value:
    return rounded_product(text, arguments, library=library)


def _rounded_quotient(text: FunctionText, arguments: list[Value], library: Library) -> Value:
    """Of vectors of float32 by the processor's own body (`native.bodies.quotients`)."""
    value, divisor, *_ = arguments
    if value.lanes and library is c_library and value.dtype == "float32":
        given = ", ".join(map(str, arguments))
        name = f"rounded_quotient.v{value.lanes}"
        return Value(text.value(f"call {value.type} @{name}({given})"), value.dtype, value.lanes)
    return _round(text, [arithmetic(text, "/", value, divisor)], library)


def nearest_quotient(
    text: FunctionText, arguments: list[Value], added: int, bounds: tuple[int, int]
) -> Value:
    """A rounded quotient of vectors of float32 plus `added`, within `bounds`, as int32; the lower
    one for what is no number. The instruction that converts rounds."""
    lanes = arguments[0].lanes
    given = ", ".join(map(str, arguments))
    real = text.value(f"call {arguments[0].type} @quotient.v{lanes}({given})")
    low, high = (float(bound - added) for bound in bounds)
    inside = within(text, Value(real, "float32", lanes), low, high)
    kind = llvm_type("int32", lanes)
    whole = text.value(f"call {kind} @llvm.lrint.v{lanes}i32.v{lanes}f32({inside})")
    found = Value(whole, "int32", lanes)
    return arithmetic(text, "+", found, splat(constant(added, "int32"), lanes)) if added else found


def _multiply_add(text: FunctionText, arguments: list[Value], _library: Library) -> Value:
    """Of float16 as float32, since `fmuladd` may round the product: a float16 overflows there."""
    dtype = arguments[0].dtype
    if dtype == "float16":
        wide = [converted(text, item, "float32") for item in arguments]
        return converted(text, _llvm(text, "fmuladd", wide), dtype)
    return _llvm(text, "fmuladd", arguments)


def _rsqrt(text: FunctionText, arguments: list[Value], _library: Library) -> Value:
    value = arguments[0]
    one = splat(constant(1.0, value.dtype), value.lanes)
    return arithmetic(text, "/", one, _llvm(text, "sqrt", [value]))


def _sigmoid(text: FunctionText, arguments: list[Value], library: Library) -> Value:
    """``1 / (1 + exp(-|x|))``, or ``exp(-|x|)`` times that: nothing overflows on either side."""
    value = arguments[0]
    if value.dtype == "float32":
        return APPROXIMATIONS["sigmoid"](text, value)
    if value.dtype == "float16":
        wide = _sigmoid(text, [converted(text, value, "float32")], library)
        return converted(text, wide, "float16")
    one = splat(constant(1.0, value.dtype), value.lanes)
    zero = splat(constant(0.0, value.dtype), value.lanes)
    size = _abs(text, [value], library)
    negative = arithmetic(text, "-", splat(constant(-0.0, value.dtype), value.lanes), size)
    small = called(text, "exp", [negative], value.dtype, library)
    positive = compared(text, ">=", value, zero)
    above = Value(text.value(f"select {positive}, {one}, {small}"), value.dtype, value.lanes)
    return arithmetic(text, "/", above, arithmetic(text, "+", one, small))


def _fmod(text: FunctionText, arguments: list[Value], _library: Library) -> Value:
    left, right = arguments
    return Value(text.value(f"frem {left}, {right.text}"), left.dtype, left.lanes)


def _number_or(text: FunctionText, arguments: list[Value], _library: Library) -> Value:
    value, other = arguments
    number = Value(text.value(f"fcmp ord {value}, {value.text}"), "bool", value.lanes)
    return Value(text.value(f"select {number}, {value}, {other}"), value.dtype, value.lanes)


_OWN: dict[str, Callable[[FunctionText, list[Value], Library], Value]] = {
    "abs": _abs,
    "bit_not": _bit_not,
    "fmod": _fmod,
    "multiply_add": _multiply_add,
    "nearest": _nearest,
    "nearest_product": _nearest_product,
    "nearest_scaled": _nearest_product,
    "number_or": _number_or,
    "popcount": _popcount,
    "round": _round,
    "rounded_product": _rounded_product,
    "rounded_quotient": _rounded_quotient,
    "rounded_scaled": _rounded_product,
    "rsqrt": _rsqrt,
    "sigmoid": _sigmoid,
}
