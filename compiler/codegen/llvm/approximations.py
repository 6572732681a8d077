"""exp, log, tanh and erf of float32 as polynomials: LLVM would call the C library for each lane.

Errors, measured over all magnitudes: at most 2 units in the last place for exp, log and tanh, and
3e-7 for erf. Coefficients: Moshier, Cephes Mathematical Library 2.8 (`expf`, `logf`, `tanhf`,
`erff`);
Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26, for erf beyond 1.
"""

import math
import struct
from collections.abc import Callable, Sequence

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
from daedal.native.function_text import FunctionText

__all__ = ["APPROXIMATIONS", "Floats", "exp"]

_WHOLE = 1.5 * 2.0**23
"""Around it, neighbouring floats are 1 apart."""
_EXP = (
    *(1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3),
    *(4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1),
)
_TANH = (
    *(-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2),
    *(1.33314422036e-1, -3.33332819422e-1),
)
_LOG = (
    *(7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1),
    *(-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1),
)
_ERF = (
    *(7.853861353153693e-5, -8.010193625184903e-4, 5.188327685732524e-3),
    *(-2.685381193529856e-2, 1.128358514861418e-1, -3.761262582423300e-1, 1.128379165726710),
)
_ERF_TAIL = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)


class Floats:
    """Arithmetic on float32 values of equal lanes."""

    def __init__(self, text: FunctionText, lanes: int) -> None:
        self.text, self.lanes = text, lanes

    def number(self, value: float) -> Value:
        """A literal."""
        return splat(constant(value, "float32"), self.lanes)

    def apply(self, op: str, a: Value, b: Value | float) -> Value:
        """``a op b``."""
        return arithmetic(self.text, op, a, b if isinstance(b, Value) else self.number(b))

    def multiply_add(self, a: Value, b: Value | float, c: Value | float) -> Value:
        """``a * b + c``, rounded once where the processor can."""
        left, right = (item if isinstance(item, Value) else self.number(item) for item in (b, c))
        name = f"llvm.fmuladd{suffix('float32', self.lanes)}"
        result = self.text.value(f"call {a.type} @{name}({a}, {left}, {right})")
        return Value(result, "float32", self.lanes)

    def polynomial(self, x: Value, coefficients: Sequence[float]) -> Value:
        """By Horner's rule, the highest power first."""
        result = self.number(coefficients[0])
        for item in coefficients[1:]:
            result = self.multiply_add(result, x, item)
        return result

    def unary(self, name: str, x: Value) -> Value:
        """One of LLVM's functions of one number."""
        result = self.text.value(f"call {x.type} @llvm.{name}{suffix('float32', self.lanes)}({x})")
        return Value(result, "float32", self.lanes)

    def with_sign(self, size: Value, sign: Value) -> Value:
        """`size` with the sign of `sign`."""
        name = f"llvm.copysign{suffix('float32', self.lanes)}"
        result = self.text.value(f"call {size.type} @{name}({size}, {sign})")
        return Value(result, "float32", self.lanes)

    def choose(self, condition: Value, a: Value, b: Value) -> Value:
        """`a` where the condition holds, else `b`."""
        return Value(self.text.value(f"select {condition}, {a}, {b}"), "float32", self.lanes)

    def bits_above(self, x: Value, least: float) -> Value:
        """By how much the bits of `x`, as an integer, exceed those of `least`."""
        kind = llvm_type("int32", self.lanes)
        (first,) = struct.unpack("<i", struct.pack("<f", least))
        bits = self.text.value(f"bitcast {x} to {kind}")
        base = splat(constant(first, "int32"), self.lanes).text
        return Value(self.text.value(f"sub {kind} {bits}, {base}"), "int32", self.lanes)

    def power_of_two(self, exponent: Value) -> Value:
        """2 to an int32 from -126 to 127, by its bits."""
        kind = exponent.type
        bias = splat(constant(127, "int32"), self.lanes).text
        places = splat(constant(23, "int32"), self.lanes).text
        biased = self.text.value(f"add {kind} {exponent.text}, {bias}")
        bits = self.text.value(f"shl {kind} {biased}, {places}")
        target = llvm_type("float32", self.lanes)
        return Value(self.text.value(f"bitcast {kind} {bits} to {target}"), "float32", self.lanes)


def exp(text: FunctionText, x: Value) -> Value:
    """e to the power of `x`: ``2^n * p(r)`` where ``x = n * log(2) + r``."""
    f = Floats(text, x.lanes)
    inside = f.apply("max", f.apply("min", x, 89.0), -104.0)
    # Floats of this size are integers: the sum is rounded to one, and its low bits are n.
    shifted = f.multiply_add(inside, 1.44269504088896341, _WHOLE)
    n = f.apply("-", shifted, _WHOLE)
    r = f.multiply_add(n, -0.693359375, inside)
    r = f.multiply_add(n, 2.12194440e-4, r)
    p = f.multiply_add(f.polynomial(r, _EXP), f.apply("*", r, r), r)
    p = f.apply("+", p, 1.0)
    whole = f.bits_above(shifted, _WHOLE)
    one = splat(constant(1, "int32"), x.lanes).text
    # In two steps, as 2^n itself may be no float where the result is.
    half = Value(text.value(f"ashr {whole}, {one}"), "int32", x.lanes)
    rest = Value(text.value(f"sub {whole}, {half.text}"), "int32", x.lanes)
    return f.apply("*", f.apply("*", p, f.power_of_two(half)), f.power_of_two(rest))


def _log(text: FunctionText, x: Value) -> Value:
    """``n * log(2) + log(1 + r)`` where ``x = 2^n * (1 + r)``, r around 0.

    Numbers that are too small for an exponent of their own are made larger first.
    """
    f = Floats(text, x.lanes)
    kind = llvm_type("int32", x.lanes)

    def whole(value: int) -> str:
        return splat(constant(value, "int32"), x.lanes).text

    tiny = compared(text, "<", x, f.number(2.0**-126))
    grown = f.choose(tiny, f.apply("*", x, 2.0**23), x)
    bits = text.value(f"bitcast {grown} to {kind}")
    # From the root of 1/2 on: what is above it counts as the next power of two.
    (root,) = struct.unpack("<i", struct.pack("<f", 0.5**0.5))
    above = text.value(f"sub {kind} {bits}, {whole(root)}")
    power = text.value(f"ashr {kind} {above}, {whole(23)}")
    shift = text.value(f"shl {kind} {power}, {whole(23)}")
    mantissa = text.value(f"sub {kind} {bits}, {shift}")
    part = Value(text.value(f"bitcast {kind} {mantissa} to {x.type}"), "float32", x.lanes)
    n = converted(text, Value(power, "int32", x.lanes), "float32")
    n = f.choose(tiny, f.apply("-", n, 23.0), n)
    r = f.apply("-", part, 1.0)
    square = f.apply("*", r, r)
    y = f.apply("*", f.apply("*", f.polynomial(r, _LOG), r), square)
    y = f.multiply_add(n, -2.12194440e-4, y)
    y = f.multiply_add(square, -0.5, y)
    y = f.multiply_add(n, 0.693359375, f.apply("+", r, y))
    y = f.choose(compared(text, "==", x, f.number(math.inf)), x, y)
    y = f.choose(compared(text, "==", x, f.number(0.0)), f.number(-math.inf), y)
    return f.choose(compared(text, ">=", x, f.number(0.0)), y, f.number(math.nan))


def _tanh(text: FunctionText, x: Value) -> Value:
    """A polynomial near 0, else ``1 - 2 / (exp(2x) + 1)``."""
    f = Floats(text, x.lanes)
    size = f.unary("fabs", x)
    square = f.apply("*", x, x)
    near = f.multiply_add(f.apply("*", f.polynomial(square, _TANH), square), x, x)
    grown = f.apply("+", exp(text, f.apply("+", size, size)), 1.0)
    far = f.apply("-", f.number(1.0), f.apply("/", f.number(2.0), grown))
    small = compared(text, "<", size, f.number(0.625))
    return f.choose(small, near, f.with_sign(far, x))


def _erf(text: FunctionText, x: Value) -> Value:
    """A polynomial up to 1, else ``1 - exp(-x^2) * p(t)``."""
    f = Floats(text, x.lanes)
    size = f.unary("fabs", x)
    square = f.apply("*", x, x)
    near = f.apply("*", x, f.polynomial(square, _ERF))
    t = f.apply("/", f.number(1.0), f.multiply_add(size, 0.3275911, 1.0))
    tail = f.apply("*", f.polynomial(t, _ERF_TAIL), t)
    falling = exp(text, f.apply("-", f.number(-0.0), square))
    far = f.apply("-", f.number(1.0), f.apply("*", tail, falling))
    small = compared(text, "<", size, f.number(1.0))
    return f.choose(small, near, f.with_sign(far, x))


APPROXIMATIONS: dict[str, Callable[[FunctionText, Value], Value]] = {
    "erf": _erf,
    "exp": exp,
    "log": _log,
    "tanh": _tanh,
}
"""By intrinsic, of float32."""
