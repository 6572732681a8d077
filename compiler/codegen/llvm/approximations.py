"""exp, log, tanh, erf and sigmoid of float32 as polynomials: LLVM would call the C library for each
lane.

Errors, measured over all magnitudes: at most 2 units in the last place for exp and log, 4e-7 of the
result for sigmoid, and for tanh and erf, which are quotients of two polynomials. Coefficients of
log: Moshier, Cephes Mathematical Library 2.8 (`logf`). Those of the others make the largest
relative error small: 2e-8 before rounding.
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

__all__ = ["APPROXIMATIONS", "NORMAL_EXPONENTS", "Floats", "exp", "normal_exp"]

NORMAL_EXPONENTS = (-87.33654, 88.0)
"""Of e, with powers that are normal float32 numbers."""

_WHOLE = 1.5 * 2.0**23
"""Around it, neighbouring floats are 1 apart."""
_BIAS = 127
"""Of the exponents of floats."""
_WHOLE_BIASED = _WHOLE + _BIAS
"""Its lowest 9 bits are the exponent of 1, without a sign."""
_EXP = (
    *(1.961159882e-4, 1.410446982e-3, 8.336103168e-3, 4.166126843e-2),
    *(0.1666661415, 0.5000003464, 1.0, 1.0),
)
"""e^r for r within log(2) of 0, the highest power first."""
_EXP_NEAR = (
    *(1.381453036e-3, 8.368745052e-3, 4.166839100e-2, 0.166665204),
    *(0.4999999343, 1.0, 1.0),
)
"""The same within log(2) / 2 of 0."""
_EXP_EVEN = (9.989792958e-2, 1.0)
_EXP_ODD = (8.283302675e-3, 0.49999993981)
"""The same as a quotient: of r^2, the second of them times r."""
_TANH = (
    (1.338216252e-8, 2.063422608e-5, 3.497358503e-3, 0.1338260321, 1.0),
    (7.789359578e-7, 3.288356580e-4, 2.588398184e-2, 0.4671592444, 1.0),
)
"""``tanh(x) / x`` up to 9, of x^2: numerator and denominator."""
_ERF = (
    (2.045798982e-6, 2.8423976e-4, 3.756041334e-3, 5.27184031e-2, 0.1902394126, 1.128379167),
    (3.801365478e-5, 1.15940356e-3, 1.495064952e-2, 0.1140324217, 0.5019282185, 1.0),
)
"""``erf(x) / x`` up to 3.93, of x^2: numerator and denominator; above 1 a little beyond."""
_LOG = (
    *(7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1),
    *(-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1),
)


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

    def polynomial(self, x: Value, coefficients: Sequence[Value | float]) -> Value:
        """By Horner's rule, the highest power first."""
        first, *others = coefficients
        result = first if isinstance(first, Value) else self.number(first)
        for item in others:
            result = self.multiply_add(result, x, item)
        return result

    def polynomial_by_pairs(self, x: Value, coefficients: Sequence[float]) -> Value:
        """By Estrin's scheme, for a power of two of coefficients, the highest power first: more
        products than by Horner's rule, in a shorter chain."""
        parts: list[Value] = [self.number(item) for item in coefficients]
        while len(parts) > 1:
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [self.multiply_add(x, high, low) for high, low in pairs]
            x = self.apply("*", x, x) if len(parts) > 1 else x
        return parts[0]

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

    def with_exponent(self, x: Value) -> Value:
        """The float whose sign and exponent are the lowest 9 bits of `x`, and which has no more."""
        kind = llvm_type("int32", self.lanes)
        places = splat(constant(23, "int32"), self.lanes).text
        bits = self.text.value(f"bitcast {x} to {kind}")
        return self._of_bits(self.text.value(f"shl {kind} {bits}, {places}"))

    def inverse_power(self, x: Value) -> Value:
        """``1 / x`` of a power of two, by its bits."""
        kind = llvm_type("int32", self.lanes)
        both = splat(constant(2 * _BIAS << 23, "int32"), self.lanes).text
        bits = self.text.value(f"bitcast {x} to {kind}")
        return self._of_bits(self.text.value(f"sub {kind} {both}, {bits}"))

    def _of_bits(self, bits: str) -> Value:
        kind, target = (llvm_type(item, self.lanes) for item in ("int32", "float32"))
        return Value(self.text.value(f"bitcast {kind} {bits} to {target}"), "float32", self.lanes)


def exp(text: FunctionText, x: Value) -> Value:
    """``4^n * p(r)``: in two steps, as 4^n itself may be no float where the result is."""
    f = Floats(text, x.lanes)
    root, r = _reduced(f, x)
    return f.apply("*", f.apply("*", f.polynomial_by_pairs(r, _EXP), root), root)


def normal_exp(text: FunctionText, x: Value) -> Value:
    """e to the power of `x` within `NORMAL_EXPONENTS`, or NaN: ``2^n * p(r)``."""
    f = Floats(text, x.lanes)
    shifted = f.multiply_add(x, 1.4426950408889634, _WHOLE_BIASED)
    n = f.apply("-", shifted, _WHOLE_BIASED)
    r = f.multiply_add(n, -0.693359375, x)
    r = f.multiply_add(n, 2.12194440e-4, r)
    square = f.apply("*", r, r)
    first, *others = _EXP_NEAR
    pairs = (f.multiply_add(r, *pair) for pair in zip(others[::2], others[1::2], strict=True))
    return f.apply("*", f.polynomial(square, [f.number(first), *pairs]), f.with_exponent(shifted))


def _reduced(f: Floats, x: Value) -> tuple[Value, Value]:
    """``2^n`` and ``r`` where ``x = n * log(4) + r``, with n from -75 to 75, as far as it matters
    for e to the power of `x`."""
    inside = f.apply("max", f.apply("min", x, 104.0), -104.0)
    # Floats of this size are integers: the sum is rounded to one, and its low bits are n.
    shifted = f.multiply_add(inside, 0.72134752044448170, _WHOLE_BIASED)
    n = f.apply("-", shifted, _WHOLE_BIASED)
    r = f.multiply_add(n, -1.38671875, inside)
    r = f.multiply_add(n, 4.24388880e-4, r)
    return f.with_exponent(shifted), r


def _sigmoid(text: FunctionText, x: Value) -> Value:
    """``1 / (1 + e^-x)``; both are multiplied by 2^n, so that neither overflows.

    e^r is ``(a + b) / (a - b)``, with `a` even and `b` odd, so the quotient costs no division of
    its own.
    """
    f = Floats(text, x.lanes)
    root, r = _reduced(f, x)
    square = f.apply("*", r, r)
    even = f.polynomial(square, _EXP_EVEN)
    odd = f.apply("*", r, f.polynomial(square, _EXP_ODD))
    above = f.apply("*", f.apply("+", even, odd), root)
    below = f.multiply_add(f.apply("-", even, odd), f.inverse_power(root), above)
    return f.apply("/", above, below)


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


def _odd_quotient(
    largest: float, numerator: Sequence[float], denominator: Sequence[float]
) -> Callable[[FunctionText, Value], Value]:
    """``x * p(x^2) / q(x^2)``, at most 1; what it is at `largest` is its value beyond, too."""

    def function(text: FunctionText, x: Value) -> Value:
        f = Floats(text, x.lanes)
        inside = f.apply("max", f.apply("min", x, largest), -largest)
        square = f.apply("*", inside, inside)
        above = f.apply("*", inside, f.polynomial(square, numerator))
        y = f.apply("/", above, f.polynomial(square, denominator))
        return f.apply("max", f.apply("min", y, 1.0), -1.0)

    return function


APPROXIMATIONS: dict[str, Callable[[FunctionText, Value], Value]] = {
    "erf": _odd_quotient(4.0, *_ERF),
    "exp": exp,
    "log": _log,
    "sigmoid": _sigmoid,
    "tanh": _odd_quotient(9.0, *_TANH),
}
"""By intrinsic, of float32."""
