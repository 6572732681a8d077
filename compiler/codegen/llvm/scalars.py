"""Operations on LLVM values, each with the meaning that `daedal.compiler.tir.evaluate` gives it.

A value has a dtype of the loop IR and lanes: 0 for a scalar, else the length of a vector.
"""

import math
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from daedal.compiler.tir.bfloat16 import BFLOAT16, QUIET, bfloat16_bits
from daedal.compiler.tir.dtype import is_float, limits
from daedal.native.function_text import FunctionText

__all__ = [
    "ELEMENT_BYTES",
    "Value",
    "arithmetic",
    "bounded",
    "broadcast",
    "compared",
    "constant",
    "converted",
    "extreme",
    "llvm_type",
    "memory_type",
    "narrowed",
    "saturated",
    "splat",
    "suffix",
    "turned",
    "within",
]

_TYPES = {
    "bool": "i1",
    "float16": "half",
    BFLOAT16: "i16",
    "float32": "float",
    "float64": "double",
    **{f"{sign}int{bits}": f"i{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}

ELEMENT_BYTES = {
    "bool": 1,
    "float16": 2,
    BFLOAT16: 2,
    "float32": 4,
    "float64": 8,
    **{f"{sign}int{bits}": bits // 8 for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
"""Size in memory of an element of each dtype."""

_SUFFIXES = {"half": "f16", "float": "f32", "double": "f64"}


@dataclass(frozen=True)
class Value:
    """A register or a literal of LLVM, its dtype, and its lanes (0: a scalar)."""

    text: str
    dtype: str
    lanes: int = 0

    @property
    def type(self) -> str:
        """LLVM's type."""
        return llvm_type(self.dtype, self.lanes)

    def __str__(self) -> str:
        return f"{self.type} {self.text}"


def llvm_type(dtype: str, lanes: int = 0) -> str:
    """LLVM's type of a value in a register."""
    return f"<{lanes} x {_TYPES[dtype]}>" if lanes else _TYPES[dtype]


def memory_type(dtype: str, lanes: int = 0) -> str:
    """LLVM's type of a value in memory: a bool has a byte."""
    element = "i8" if dtype == "bool" else _TYPES[dtype]
    return f"<{lanes} x {element}>" if lanes else element


def suffix(dtype: str, lanes: int) -> str:
    """What LLVM appends to the name of an intrinsic for this type: ``.v8f32``."""
    element = _SUFFIXES.get(_TYPES[dtype], _TYPES[dtype])
    return f".v{lanes}{element}" if lanes else f".{element}"


def constant(value: int | float, dtype: str) -> Value:
    """A scalar literal."""
    if not is_float(dtype):
        return Value(str(int(value)), dtype)
    if dtype == BFLOAT16:
        return Value(str(int(bfloat16_bits(value))), dtype)
    bits = 16 if dtype == "float16" else 64
    form = {"float16": "<e", "float32": "<f", "float64": "<d"}[dtype]
    try:
        packed = struct.pack(form, value)
    except OverflowError:
        packed = struct.pack(form, float("inf") if value > 0 else float("-inf"))
    if dtype == "float32":
        packed = struct.pack("<d", struct.unpack("<f", packed)[0])
    digits = int.from_bytes(packed, "little")
    return Value(f"0xH{digits:04X}" if bits == 16 else f"0x{digits:016X}", dtype)


def broadcast(text: FunctionText, value: Value, lanes: int) -> Value:
    """`value` in every lane."""
    if value.lanes == lanes:
        return value
    kind = llvm_type(value.dtype, lanes)
    one = text.value(f"insertelement {kind} poison, {value}, i64 0")
    mask = f"<{lanes} x i32> zeroinitializer"
    return Value(
        text.value(f"shufflevector {kind} {one}, {kind} poison, {mask}"), value.dtype, lanes
    )


def turned(text: FunctionText, rows: Sequence[Value]) -> list[Value]:
    """The columns of a square of vectors; their number is a power of two.

    Blocks of half the size are exchanged first, then those in them. Source: Eklundh, "A Fast
    Computer Method for Matrix Transposing", IEEE Transactions on Computers C-21(7), 1972.
    """
    vectors, count = list(rows), len(rows)
    distance = count // 2
    while distance:
        for first in range(count):
            if first & distance:
                continue
            a, b = vectors[first], vectors[first + distance]
            for place, moved in ((first, 0), (first + distance, distance)):
                numbers = (
                    lane + moved if not lane & distance else count + lane - distance + moved
                    for lane in range(count)
                )
                mask = f"<{count} x i32> <{', '.join(f'i32 {number}' for number in numbers)}>"
                register = text.value(f"shufflevector {a}, {b}, {mask}")
                vectors[place] = Value(register, a.dtype, count)
        distance //= 2
    return vectors


def arithmetic(text: FunctionText, op: str, a: Value, b: Value, *, contract: bool = False) -> Value:
    """``a op b`` of two values of one type; with `contract`, products and sums may be fused."""
    if is_float(a.dtype):
        return Value(_float_arithmetic(text, op, a, b, contract), a.dtype, a.lanes)
    return Value(_integer_arithmetic(text, op, a, b), a.dtype, a.lanes)


_FLOAT = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}


def _float_arithmetic(text: FunctionText, op: str, a: Value, b: Value, contract: bool) -> str:
    if op in _FLOAT:
        flags = "contract " if contract else ""
        return text.value(f"{_FLOAT[op]} {flags}{a}, {b.text}")
    for x, bound in ((a, b), (b, a)):
        if _is_number(bound):  # one instruction of x86-64: what is not a number stays
            less = text.value(f"fcmp o{'lt' if op == 'max' else 'gt'} {x}, {bound.text}")
            return text.value(f"select {Value(less, 'bool', a.lanes)}, {bound}, {x}")
    name = {"min": "minimum", "max": "maximum"}[op]
    return _called(text, f"llvm.{name}{suffix(a.dtype, a.lanes)}", a, b)


def _is_number(value: Value) -> bool:
    """Whether a float is a literal other than NaN."""
    found = re.search("0x(H?)([0-9A-F]+)", value.text)
    if found is None:
        return False
    form, size = ("<e", 2) if found[1] else ("<d", 8)
    (number,) = struct.unpack(form, int(found[2], 16).to_bytes(size, "little"))
    return not math.isnan(number)


def _integer_arithmetic(text: FunctionText, op: str, a: Value, b: Value) -> str:
    signed = not a.dtype.startswith("u")
    if op in ("+", "-", "*"):
        return text.value(f"{ {'+': 'add', '-': 'sub', '*': 'mul'}[op] } {a}, {b.text}")
    if op in ("min", "max"):
        return _called(text, f"llvm.{'s' if signed else 'u'}{op}{suffix(a.dtype, a.lanes)}", a, b)
    if op in ("<<", ">>"):
        return _shifted(text, op, a, b, signed)
    return _divided(text, op, a, b, signed)


def _shifted(text: FunctionText, op: str, a: Value, b: Value, signed: bool) -> str:
    """A shift by the width or more gives 0, or the sign."""
    bits = limits(a.dtype)[1].bit_length() + signed
    name = "shl" if op == "<<" else "ashr" if signed else "lshr"
    width = splat(constant(bits, a.dtype), a.lanes)
    wide = text.value(f"icmp uge {b}, {width.text}")
    most = splat(constant(bits - 1, a.dtype), a.lanes)
    mask = Value(wide, "bool", a.lanes)
    amount = text.value(f"select {mask}, {most}, {b}")
    result = text.value(f"{name} {a}, {amount}")
    if name == "ashr":
        return result
    zero = f"{a.type} zeroinitializer" if a.lanes else f"{a.type} 0"
    return text.value(f"select {mask}, {zero}, {a.type} {result}")


def _divided(text: FunctionText, op: str, a: Value, b: Value, signed: bool) -> str:
    """Rounded to minus infinity; 0 where `b` is 0; the smallest number by -1 wraps."""
    one = splat(constant(1, a.dtype), a.lanes)
    zero = splat(constant(0, a.dtype), a.lanes)
    empty = Value(text.value(f"icmp eq {b}, {zero.text}"), "bool", a.lanes)
    safe = text.value(f"select {empty}, {one}, {b}")
    if not signed:
        name = "udiv" if op == "//" else "urem"
        result = text.value(f"{name} {a}, {safe}")
        return text.value(f"select {empty}, {zero}, {a.type} {result}")
    minus = splat(constant(-1, a.dtype), a.lanes)
    flips = Value(text.value(f"icmp eq {b}, {minus.text}"), "bool", a.lanes)
    safe = text.value(f"select {flips}, {one}, {a.type} {safe}")
    quotient = text.value(f"sdiv {a}, {safe}")
    rest = text.value(f"srem {a}, {safe}")
    unequal = text.value(f"icmp ne {a.type} {rest}, {zero.text}")
    signs = text.value(f"xor {a.type} {rest}, {safe}")
    opposite = text.value(f"icmp slt {a.type} {signs}, {zero.text}")
    down = Value(
        text.value(f"and {llvm_type('bool', a.lanes)} {unequal}, {opposite}"), "bool", a.lanes
    )
    if op == "//":
        step = text.value(f"zext {down} to {a.type}")
        floored = text.value(f"sub {a.type} {quotient}, {step}")
        negated = text.value(f"sub {a.type} {zero.text}, {a.text}")
        floored = text.value(f"select {flips}, {a.type} {negated}, {a.type} {floored}")
    else:
        moved = text.value(f"add {a.type} {rest}, {safe}")
        floored = text.value(f"select {down}, {a.type} {moved}, {a.type} {rest}")
        floored = text.value(f"select {flips}, {zero}, {a.type} {floored}")
    return text.value(f"select {empty}, {zero}, {a.type} {floored}")


def splat(value: Value, lanes: int) -> Value:
    """A scalar literal, in every lane if there are lanes."""
    if not lanes:
        return value
    return Value(f"splat ({value})", value.dtype, lanes)


_COMPARE = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}


def compared(text: FunctionText, op: str, a: Value, b: Value) -> Value:
    """``a op b`` as a bool; with a not-a-number only ``!=`` holds."""
    name = _COMPARE[op]
    if is_float(a.dtype):
        how = f"fcmp {'u' if op == '!=' else 'o'}{name}"
    elif op in ("==", "!="):
        how = f"icmp {name}"
    else:
        unsigned = a.dtype.startswith("u") or a.dtype == "bool"
        how = f"icmp {'u' if unsigned else 's'}{name}"
    return Value(text.value(f"{how} {a}, {b.text}"), "bool", a.lanes)


def converted(text: FunctionText, value: Value, dtype: str) -> Value:
    """`value` as `dtype`: integers wrap, floats truncate and saturate, not-a-number becomes the
    lowest integer."""
    if value.dtype == dtype:
        return value
    if value.dtype == BFLOAT16:
        return converted(text, _widened(text, value), dtype)
    if dtype == BFLOAT16:
        return _rounded(text, converted(text, value, "float32"))
    kind = llvm_type(dtype, value.lanes)
    return Value(_converted(text, value, dtype, kind), dtype, value.lanes)


def _widened(text: FunctionText, value: Value) -> Value:
    """Bfloat16 as float32; see `tir.bfloat16`."""
    kind = llvm_type("uint32", value.lanes)
    wide = Value(text.value(f"zext {value} to {kind}"), "uint32", value.lanes)
    sixteen = splat(constant(16, "uint32"), value.lanes)
    high = text.value(f"shl {wide}, {sixteen.text}")
    single = llvm_type("float32", value.lanes)
    return Value(text.value(f"bitcast {kind} {high} to {single}"), "float32", value.lanes)


def _rounded(text: FunctionText, value: Value) -> Value:
    """Float32 as bfloat16; see `tir.bfloat16`. Few processors have an instruction for it, and those
    of x86-64 take the smallest numbers for 0."""
    lanes = value.lanes
    kind = llvm_type("uint32", lanes)

    def whole(operation: str, a: str, b: str | int) -> str:
        other = b if isinstance(b, str) else splat(constant(b, "uint32"), lanes).text
        return text.value(f"{operation} {kind} {a}, {other}")

    bits = text.value(f"bitcast {value} to {kind}")
    high = whole("lshr", bits, 16)
    half = whole("add", whole("and", high, 1), (1 << 15) - 1)
    nearest = whole("lshr", whole("add", bits, half), 16)
    none = Value(text.value(f"fcmp uno {value}, {value.text}"), "bool", lanes)
    found = text.value(f"select {none}, {kind} {whole('or', high, QUIET)}, {kind} {nearest}")
    result = text.value(f"trunc {kind} {found} to {llvm_type(BFLOAT16, lanes)}")
    return Value(result, BFLOAT16, lanes)


def _converted(text: FunctionText, value: Value, dtype: str, kind: str) -> str:
    source = value.dtype
    if dtype == "bool":
        zero = splat(constant(0, source), value.lanes)
        how = "fcmp une" if is_float(source) else "icmp ne"
        return text.value(f"{how} {value}, {zero.text}")
    unsigned = source.startswith("u") or source == "bool"
    if is_float(dtype):
        if is_float(source):
            wider = ELEMENT_BYTES[dtype] > ELEMENT_BYTES[source]
            return text.value(f"{'fpext' if wider else 'fptrunc'} {value} to {kind}")
        return text.value(f"{'uitofp' if unsigned else 'sitofp'} {value} to {kind}")
    if is_float(source):
        if source == "float16":
            # LLVM 22 converts a half that is no number to the lowest 16-bit integer where the
            # processor has AVX512-FP16. The way through float is exact.
            value = converted(text, value, "float32")
            source = value.dtype
        if value.lanes and _fits_int32(dtype):
            return _truncated(text, value, dtype, kind)
        name = "fptoui" if dtype.startswith("u") else "fptosi"
        found = _called(
            text,
            f"llvm.{name}.sat{suffix(dtype, value.lanes)}{suffix(source, value.lanes)}",
            value,
            result=kind,
        )
        low, _ = limits(dtype)
        if not low:
            return found
        # The intrinsic gives 0 for not-a-number.
        lowest = splat(constant(low, dtype), value.lanes)
        none = Value(text.value(f"fcmp uno {value}, {value.text}"), "bool", value.lanes)
        return text.value(f"select {none}, {lowest}, {kind} {found}")
    if source == "bool" or ELEMENT_BYTES[dtype] > ELEMENT_BYTES[source]:
        return text.value(f"{'zext' if unsigned else 'sext'} {value} to {kind}")
    if ELEMENT_BYTES[dtype] < ELEMENT_BYTES[source]:
        return text.value(f"trunc {value} to {kind}")
    return value.text


def _fits_int32(dtype: str) -> bool:
    low, high = limits(dtype)
    first, last = limits("int32")
    return first <= low and high <= last


def _truncated(text: FunctionText, value: Value, dtype: str, kind: str) -> str:
    """Vectors of floats as integers of up to 32 bits; LLVM has no vectors of its saturating
    intrinsics on x86-64."""
    low, high = limits(dtype)
    # The largest float below 2^31 that all int32 hold; what is beyond it becomes the limit.
    last = float(high) if value.dtype == "float64" or high < 1 << 24 else 2147483520.0
    ends = splat(constant(high, value.dtype), value.lanes)
    inside = within(text, value, float(low), last)
    whole = text.value(f"fptosi {inside} to {llvm_type('int32', value.lanes)}")
    result = converted(text, Value(whole, "int32", value.lanes), dtype)
    if last != float(high):
        beyond = compared(text, ">=", value, ends)
        limit = splat(constant(high, dtype), value.lanes)
        result = Value(text.value(f"select {beyond}, {limit}, {result}"), dtype, value.lanes)
    return result.text


def saturated(
    text: FunctionText, value: Value, dtype: str, *, may_be_negative_zero: bool = True
) -> Value:
    """A whole float as a float again, after a conversion to an integer `dtype` of up to 16 bits: it
    stays in its lanes, as bounds do the same."""
    low, high = limits(dtype)
    inside = within(text, value, float(low), float(high))
    if not may_be_negative_zero:
        return inside
    # Integers have no -0.
    return arithmetic(text, "+", inside, splat(constant(0, value.dtype), value.lanes))


def bounded(text: FunctionText, value: Value, narrow: str) -> Value:
    """Floats as int32 that an integer type of 8 bits holds."""
    low, high = limits(narrow)
    inside = within(text, value, float(low), float(high))
    whole = text.value(f"fptosi {inside} to {llvm_type('int32', value.lanes)}")
    return Value(whole, "int32", value.lanes)


def narrowed(text: FunctionText, value: Value, dtype: str) -> Value:
    """Int32 that an integer `dtype` of 16 bits holds as such: bounded so that LLVM packs them."""
    for op, bound in zip(("max", "min"), limits(dtype), strict=True):
        value = arithmetic(text, op, value, splat(constant(bound, "int32"), value.lanes))
    return converted(text, value, dtype)


def within(text: FunctionText, value: Value, low: float, high: float) -> Value:
    """Floats between two bounds, the lower one for what is no number."""
    for op, bound in (("max", low), ("min", high)):
        value = extreme(text, op, splat(constant(bound, value.dtype), value.lanes), value)
    return value


def extreme(text: FunctionText, op: str, start: Value, x: Value) -> Value:
    """The larger or smaller one; `start` where `x` is NaN: one instruction of x86-64."""
    sign = "ogt" if op == "max" else "olt"
    beyond = Value(text.value(f"fcmp {sign} {x}, {start.text}"), "bool", x.lanes)
    return Value(text.value(f"select {beyond}, {x}, {start}"), x.dtype, x.lanes)


def _called(text: FunctionText, name: str, *arguments: Value, result: str = "") -> str:
    given = ", ".join(map(str, arguments))
    return text.value(f"call {result or arguments[0].type} @{name}({given})")
