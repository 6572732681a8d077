"""Functions of float32 for GPUs, which have no library: polynomials, some those of processors.

Errors relative to the result are at most 1e-6; of sin, cos and tan up to arguments of 1e4, of pow
times the size of ``y * log2(x)``. Coefficients: Moshier, Cephes Mathematical Library 2.8 (`sinf`,
`asinf`, `atanf`).
"""

import math
from collections.abc import Callable, Sequence

from daedal.compiler.codegen.llvm.approximations import APPROXIMATIONS, Floats
from daedal.compiler.codegen.llvm.scalars import Value, compared
from daedal.native.function_text import FunctionText

__all__ = ["function_definitions"]

_SIN = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
_COS = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
_ASIN = (4.2163199048e-2, 2.4181311049e-2, 4.5470025998e-2, 7.4953002686e-2, 1.6666752422e-1)
_ATAN = (8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1)
_HALF_PI = (1.5703125, 4.837512969970703e-4, 7.54978995489188e-8)
"""Pi / 2 in three parts, each with few bits."""
_WHOLE = 1.5 * 2.0**23


def _quadrant(f: Floats, x: Value) -> tuple[Value, Value]:
    """``x`` less a multiple of pi / 2, within pi / 4 around 0, and this multiple."""
    shifted = f.multiply_add(x, 2 / math.pi, _WHOLE)
    n = f.apply("-", shifted, _WHOLE)
    for part in _HALF_PI:
        x = f.multiply_add(n, -part, x)
    return x, f.bits_above(shifted, _WHOLE)


def _sine(f: Floats, r: Value) -> Value:
    square = f.apply("*", r, r)
    return f.multiply_add(f.apply("*", f.polynomial(square, _SIN), square), r, r)


def _cosine(f: Floats, r: Value) -> Value:
    square = f.apply("*", r, r)
    high = f.apply("*", f.polynomial(square, _COS), f.apply("*", square, square))
    return f.apply("+", f.multiply_add(square, -0.5, high), 1.0)


def _turned(text: FunctionText, x: Value, quarters: int) -> Value:
    """sin(x + quarters * pi / 2)."""
    f = Floats(text, 0)
    r, n = _quadrant(f, x)
    moved = text.value(f"add i32 {n.text}, {quarters}")
    odd = Value(text.value(f"trunc i32 {moved} to i1"), "bool")
    high = text.value(f"lshr i32 {moved}, 1")
    size = f.choose(odd, _cosine(f, r), _sine(f, r))
    negative = Value(text.value(f"trunc i32 {high} to i1"), "bool")
    return f.choose(negative, f.apply("-", f.number(-0.0), size), size)


def _sin(text: FunctionText, x: Value) -> Value:
    return _turned(text, x, 0)


def _cos(text: FunctionText, x: Value) -> Value:
    return _turned(text, x, 1)


def _tan(text: FunctionText, x: Value) -> Value:
    return Floats(text, 0).apply("/", _sin(text, x), _cos(text, x))


def _log(text: FunctionText, x: Value) -> Value:
    return APPROXIMATIONS["log"](text, x)


def _exp(text: FunctionText, x: Value) -> Value:
    return APPROXIMATIONS["exp"](text, x)


def _log2(text: FunctionText, x: Value) -> Value:
    return Floats(text, 0).apply("*", _log(text, x), 1 / math.log(2))


def _half_angle(f: Floats, size: Value) -> Value:
    """asin of a number from 0 to 1/2."""
    square = f.apply("*", size, size)
    return f.multiply_add(f.apply("*", f.polynomial(square, _ASIN), square), size, size)


def _asin(text: FunctionText, x: Value) -> Value:
    f = Floats(text, 0)
    size = f.unary("fabs", x)
    root = f.unary("sqrt", f.multiply_add(size, -0.5, 0.5))
    far = f.apply("-", f.number(math.pi / 2), f.apply("*", _half_angle(f, root), 2.0))
    near = compared(text, "<=", size, f.number(0.5))
    return f.with_sign(f.choose(near, _half_angle(f, size), far), x)


def _acos(text: FunctionText, x: Value) -> Value:
    """Near 1, by the half angle: the difference from pi / 2 has no bits there."""
    f = Floats(text, 0)
    size = f.unary("fabs", x)
    root = f.unary("sqrt", f.multiply_add(size, -0.5, 0.5))
    small = f.apply("*", _half_angle(f, root), 2.0)
    negative = compared(text, "<", x, f.number(0.0))
    far = f.choose(negative, f.apply("-", f.number(math.pi), small), small)
    near = f.apply("-", f.number(math.pi / 2), f.with_sign(_half_angle(f, size), x))
    return f.choose(compared(text, "<=", size, f.number(0.5)), near, far)


def _atan(text: FunctionText, x: Value) -> Value:
    f = Floats(text, 0)
    size = f.unary("fabs", x)
    inverse = f.apply("/", f.number(-1.0), size)
    part = f.apply("/", f.apply("-", size, 1.0), f.apply("+", size, 1.0))
    large = compared(text, ">", size, f.number(2.414213562373095))
    middle = compared(text, ">", size, f.number(0.4142135623730950))
    r = f.choose(large, inverse, f.choose(middle, part, size))
    base = f.choose(middle, f.number(math.pi / 4), f.number(0.0))
    base = f.choose(large, f.number(math.pi / 2), base)
    square = f.apply("*", r, r)
    angle = f.multiply_add(f.apply("*", f.polynomial(square, _ATAN), square), r, r)
    return f.with_sign(f.apply("+", base, angle), x)


def _sinh(text: FunctionText, x: Value) -> Value:
    """Near 0 the first terms of the series; else by the exponential of half the argument, as that
    of all of it may be no float where the result is."""
    f = Floats(text, 0)
    size = f.unary("fabs", x)
    square = f.apply("*", x, x)
    series = f.polynomial(square, (1 / 362880, 1 / 5040, 1 / 120, 1 / 6))
    near = f.multiply_add(f.apply("*", series, square), size, size)
    half = _exp(text, f.apply("*", size, 0.5))
    grown = f.apply("*", f.apply("*", half, 0.5), half)
    far = f.apply("-", grown, f.apply("/", f.number(0.25), grown))
    return f.with_sign(f.choose(compared(text, "<", size, f.number(1.0)), near, far), x)


def _cosh(text: FunctionText, x: Value) -> Value:
    f = Floats(text, 0)
    half = _exp(text, f.apply("*", f.unary("fabs", x), 0.5))
    grown = f.apply("*", f.apply("*", half, 0.5), half)
    return f.apply("+", grown, f.apply("/", f.number(0.25), grown))


def _log1p(text: FunctionText, x: Value) -> Value:
    """log(1 + x) for x >= 0: what ``1 + x`` rounds away is made up for."""
    f = Floats(text, 0)
    whole = f.apply("+", x, 1.0)
    lost = f.apply("-", x, f.apply("-", whole, 1.0))
    logarithm = f.apply("+", _log(text, whole), f.apply("/", lost, whole))
    finite = compared(text, "<", x, f.number(math.inf))
    return f.choose(finite, logarithm, x)


def _asinh(text: FunctionText, x: Value) -> Value:
    """``log(1 + s + s^2 / (1 + sqrt(1 + s^2)))`` of the size s; of large ones ``log(2 s)``."""
    f = Floats(text, 0)
    size = f.unary("fabs", x)
    square = f.apply("*", size, size)
    root = f.apply("+", f.unary("sqrt", f.apply("+", square, 1.0)), 1.0)
    near = _log1p(text, f.apply("+", size, f.apply("/", square, root)))
    far = f.apply("+", _log(text, size), math.log(2))
    return f.with_sign(f.choose(compared(text, "<", size, f.number(1e9)), near, far), x)


def _acosh(text: FunctionText, x: Value) -> Value:
    f = Floats(text, 0)
    above = f.apply("-", x, 1.0)
    root = f.unary("sqrt", f.apply("*", above, f.apply("+", x, 1.0)))
    near = _log1p(text, f.apply("+", above, root))
    far = f.apply("+", _log(text, x), math.log(2))
    return f.choose(compared(text, "<", x, f.number(1e9)), near, far)


def _atanh(text: FunctionText, x: Value) -> Value:
    """``log(1 + 2 s / (1 - s)) / 2`` of the size s."""
    f = Floats(text, 0)
    size = f.unary("fabs", x)
    ratio = f.apply("/", f.apply("+", size, size), f.apply("-", f.number(1.0), size))
    return f.with_sign(f.apply("*", _log1p(text, ratio), 0.5), x)


def _pow(text: FunctionText, x: Value, y: Value) -> Value:
    """Of the size of `x`; a negative one keeps its sign for odd `y`, and has no other powers."""
    f = Floats(text, 0)
    size = f.unary("fabs", x)
    power = _exp(text, f.apply("*", y, _log(text, size)))
    whole = compared(text, "==", f.unary("trunc", y), y)
    half = f.apply("*", y, 0.5)
    even = compared(text, "==", f.unary("trunc", half), half)
    signed = f.choose(even, power, f.apply("-", f.number(-0.0), power))
    of_negative = f.choose(whole, signed, f.number(math.nan))
    result = f.choose(compared(text, "<", x, f.number(0.0)), of_negative, power)
    one = compared(text, "==", x, f.number(1.0))
    zero = compared(text, "==", y, f.number(0.0))
    return f.choose(one, f.number(1.0), f.choose(zero, f.number(1.0), result))


_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "acos": _acos,
    "acosh": _acosh,
    "asin": _asin,
    "asinh": _asinh,
    "atan": _atan,
    "atanh": _atanh,
    "cos": _cos,
    "cosh": _cosh,
    "log2": _log2,
    "pow": _pow,
    "sin": _sin,
    "sinh": _sinh,
    "tan": _tan,
}


def function_definitions(names: Sequence[str]) -> list[str]:
    """The bodies of those of `names`, ``gpu.NAME.f32``, that are here."""
    return [_definition(name) for name in names if name.split(".")[1:-1] and _own(name)]


def _own(name: str) -> bool:
    return name.startswith("gpu.") and name.endswith(".f32") and name[4:-4] in _FUNCTIONS


def _definition(name: str) -> str:
    function, text = _FUNCTIONS[name[4:-4]], FunctionText()
    count = 2 if function is _pow else 1
    values = [Value(f"%x{number}", "float32") for number in range(count)]
    text.leave(f"ret {function(text, *values)}")
    given = ", ".join(map(str, values))
    return f"\ndefine internal float @{name}({given}) alwaysinline {{\n{text.body()}\n}}\n"
