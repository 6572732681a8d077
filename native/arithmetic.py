"""Integer and float arithmetic of kernels as LLVM IR text: Python's semantics, and no traps."""

import operator
import struct
from dataclasses import dataclass

from daedal.native.function_text import FunctionText
from daedal.native.types import Kind, i64

__all__ = ["Value", "float_text", "integer", "integer_binary", "literal", "to_float", "truth"]


@dataclass(frozen=True)
class Value:
    """A number in a kernel: its kind and LLVM's operand, a register or a literal."""

    kind: Kind
    text: str


_FOLDED = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}
_DIRECT = {"+": "add", "-": "sub", "*": "mul", "&": "and", "|": "or", "^": "xor"}


def literal(value: Value) -> int | None:
    """The number of an integer literal, else None."""
    if value.kind is Kind.INT and value.text.lstrip("-").isdigit():
        return int(value.text)
    return None


def float_text(number: float) -> str:
    """A float as LLVM writes it exactly."""
    return f"0x{struct.pack('>d', number).hex().upper()}"


def integer(out: FunctionText, value: Value) -> Value:
    """A bool as 0 or 1; an integer as it is."""
    if value.kind is Kind.BOOL:
        if value.text in ("true", "false"):
            return Value(Kind.INT, "1" if value.text == "true" else "0")
        return Value(Kind.INT, out.value(f"zext i1 {value.text} to i64"))
    return value


def to_float(out: FunctionText, value: Value) -> Value:
    """A number as a float."""
    if value.kind is Kind.FLOAT:
        return value
    number = literal(integer(out, value))
    if number is not None:
        return Value(Kind.FLOAT, float_text(float(number)))
    whole = integer(out, value)
    return Value(Kind.FLOAT, out.value(f"sitofp i64 {whole.text} to double"))


def truth(out: FunctionText, value: Value) -> str:
    """i1: whether Python takes the number for true."""
    if value.kind is Kind.BOOL:
        return value.text
    number = literal(value)
    if number is not None:
        return "true" if number else "false"
    if value.kind is Kind.FLOAT:
        return out.value(f"fcmp une double {value.text}, 0.0")
    return out.value(f"icmp ne i64 {value.text}, 0")


def integer_binary(out: FunctionText, sign: str, a: Value, b: Value) -> Value:
    """``a sign b`` for two integers; sign is one of ``+ - * & | ^ << >> // %``."""
    x, y = literal(a), literal(b)
    if sign in _DIRECT:
        if x is not None and y is not None:
            return Value(Kind.INT, str(i64(_FOLDED[sign](x, y))))
        return Value(Kind.INT, out.value(f"{_DIRECT[sign]} i64 {a.text}, {b.text}"))
    if sign in ("<<", ">>"):
        return _shift(out, sign, a, b)
    if y is not None and y > 0:
        return _divide_by(out, sign, a, y)
    return _divide(out, sign, a, b)


def _shift(out: FunctionText, sign: str, a: Value, b: Value) -> Value:
    x, y = literal(a), literal(b)
    if y is not None:
        if sign == "<<":
            if not 0 <= y < 64:
                return Value(Kind.INT, "0")
            if x is not None:
                return Value(Kind.INT, str(i64(x << y)))
            return Value(Kind.INT, out.value(f"shl i64 {a.text}, {y}"))
        return Value(Kind.INT, out.value(f"ashr i64 {a.text}, {y if 0 <= y < 64 else 63}"))
    inside = out.value(f"icmp ult i64 {b.text}, 64")
    if sign == "<<":
        # The unselected result may be poison, which select does not pass on.
        moved = out.value(f"shl i64 {a.text}, {b.text}")
        return Value(Kind.INT, out.value(f"select i1 {inside}, i64 {moved}, i64 0"))
    count = out.value(f"select i1 {inside}, i64 {b.text}, i64 63")
    return Value(Kind.INT, out.value(f"ashr i64 {a.text}, {count}"))


def _divide_by(out: FunctionText, sign: str, a: Value, divisor: int) -> Value:
    """Division by a positive literal: only negative dividends need a correction to round down."""
    if divisor & (divisor - 1) == 0:
        if sign == "//":
            text = f"ashr i64 {a.text}, {divisor.bit_length() - 1}"
        else:
            text = f"and i64 {a.text}, {divisor - 1}"
        return Value(Kind.INT, out.value(text))
    rest = out.value(f"srem i64 {a.text}, {divisor}")
    low = out.value(f"icmp slt i64 {rest}, 0")
    if sign == "%":
        raised = out.value(f"add i64 {rest}, {divisor}")
        return Value(Kind.INT, out.value(f"select i1 {low}, i64 {raised}, i64 {rest}"))
    quotient = out.value(f"sdiv i64 {a.text}, {divisor}")
    return Value(Kind.INT, out.value(f"add i64 {quotient}, {_minus_one(out, low)}"))


def _minus_one(out: FunctionText, flag: str) -> str:
    return out.value(f"sext i1 {flag} to i64")


def _divide(out: FunctionText, sign: str, a: Value, b: Value) -> Value:
    # The processor traps on a divisor of 0 and on the smallest number by -1: divide by 1 there.
    zero = out.value(f"icmp eq i64 {b.text}, 0")
    negative_one = out.value(f"icmp eq i64 {b.text}, -1")
    special = out.value(f"or i1 {zero}, {negative_one}")
    divisor = out.value(f"select i1 {special}, i64 1, i64 {b.text}")
    quotient = out.value(f"sdiv i64 {a.text}, {divisor}")
    rest = out.value(f"srem i64 {a.text}, {divisor}")
    some = out.value(f"icmp ne i64 {rest}, 0")
    mixed = out.value(f"xor i64 {rest}, {divisor}")
    opposite = out.value(f"icmp slt i64 {mixed}, 0")
    low = out.value(f"and i1 {some}, {opposite}")
    if sign == "%":
        raised = out.value(f"add i64 {rest}, {divisor}")
        return Value(Kind.INT, out.value(f"select i1 {low}, i64 {raised}, i64 {rest}"))
    floor = out.value(f"add i64 {quotient}, {_minus_one(out, low)}")
    negated = out.value(f"sub i64 0, {a.text}")
    return Value(Kind.INT, out.value(f"select i1 {negative_one}, i64 {negated}, i64 {floor}"))
