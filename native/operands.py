"""Arrays and records as operands of a kernel's expressions, and access to their memory."""

from dataclasses import dataclass

from daedal.native.arithmetic import Value, integer, to_float
from daedal.native.function_text import FunctionText
from daedal.native.metadata import AliasClasses
from daedal.native.record import RecordField, RecordType
from daedal.native.types import Kind, Scalar

__all__ = [
    "ArrayOperand",
    "Operand",
    "RecordOperand",
    "cast",
    "load_array_field",
    "load_element",
    "load_field",
    "store_element",
    "store_field",
]


@dataclass(frozen=True)
class ArrayOperand:
    """An array: element type, address and length as operands."""

    element: Scalar
    pointer: str
    length: str


@dataclass(frozen=True)
class RecordOperand:
    """A record: its type and the address of its slots."""

    type: RecordType
    pointer: str


Operand = Value | ArrayOperand | RecordOperand


def cast(out: FunctionText, kind: Scalar, value: Value) -> Value:
    """Convert as ``kind(value)`` does."""
    if kind.kind is Kind.FLOAT:
        number = to_float(out, value)
        if kind.bits == 64:
            return number
        narrow = out.value(f"fptrunc double {number.text} to float")
        return Value(Kind.FLOAT, out.value(f"fpext float {narrow} to double"))
    if value.kind is Kind.FLOAT:
        text = out.value(f"call i64 @llvm.fptosi.sat.i64.f64(double {value.text})")
        value = Value(Kind.INT, text)
    whole = integer(out, value)
    if kind.bits == 64:
        return whole
    narrow = out.value(f"trunc i64 {whole.text} to i{kind.bits}")
    widen = "sext" if kind.signed else "zext"
    return Value(Kind.INT, out.value(f"{widen} i{kind.bits} {narrow} to i64"))


def load_element(
    out: FunctionText, classes: AliasClasses, array: ArrayOperand, index: Value
) -> Value:
    """``array[index]``."""
    kind = array.element
    where = out.value(f"getelementptr inbounds {kind.llvm}, ptr {array.pointer}, i64 {index.text}")
    size, tag = kind.bits // 8, classes.tag("elements")
    raw = out.value(f"load {kind.llvm}, ptr {where}, align {size}{tag}")
    if kind.kind is Kind.FLOAT:
        text = raw if kind.bits == 64 else out.value(f"fpext float {raw} to double")
        return Value(Kind.FLOAT, text)
    if kind.bits == 64:
        return Value(Kind.INT, raw)
    widen = "sext" if kind.signed else "zext"
    return Value(Kind.INT, out.value(f"{widen} i{kind.bits} {raw} to i64"))


def store_element(
    out: FunctionText, classes: AliasClasses, array: ArrayOperand, index: Value, value: Value
) -> None:
    """``array[index] = value``; `value` has the element's kind."""
    kind, text = array.element, value.text
    if kind.kind is Kind.FLOAT and kind.bits == 32:
        text = out.value(f"fptrunc double {text} to float")
    elif kind.kind is Kind.INT and kind.bits < 64:
        text = out.value(f"trunc i64 {text} to i{kind.bits}")
    where = out.value(f"getelementptr inbounds {kind.llvm}, ptr {array.pointer}, i64 {index.text}")
    size, tag = kind.bits // 8, classes.tag("elements")
    out.line(f"store {kind.llvm} {text}, ptr {where}, align {size}{tag}")


def _slot(out: FunctionText, pointer: str, slot: int) -> str:
    return out.value(f"getelementptr inbounds i64, ptr {pointer}, i64 {slot}")


def _class_of(record: RecordOperand, field: RecordField) -> str:
    return f"{record.type.name}.{field.name}"


def load_field(
    out: FunctionText, classes: AliasClasses, record: RecordOperand, field: RecordField
) -> Value:
    """A scalar field."""
    assert isinstance(field.type, Scalar), "an array field is read by load_array_field"
    kind = Kind.FLOAT if field.type.kind is Kind.FLOAT else Kind.INT
    where, tag = _slot(out, record.pointer, field.slot), classes.tag(_class_of(record, field))
    text = out.value(f"load {kind.value}, ptr {where}, align 8{tag}")
    if field.type.kind is Kind.BOOL:
        return Value(Kind.BOOL, out.value(f"icmp ne i64 {text}, 0"))
    return Value(kind, text)


def store_field(
    out: FunctionText,
    classes: AliasClasses,
    record: RecordOperand,
    field: RecordField,
    value: Value,
) -> None:
    """Write a scalar field; `value` has its kind, or is a bool for an integer."""
    stored = integer(out, value) if value.kind is Kind.BOOL else value
    where, tag = _slot(out, record.pointer, field.slot), classes.tag(_class_of(record, field))
    out.line(f"store {stored.kind.value} {stored.text}, ptr {where}, align 8{tag}")


def load_array_field(
    out: FunctionText, classes: AliasClasses, record: RecordOperand, field: RecordField
) -> ArrayOperand:
    """An array field: no kernel changes its address or length."""
    assert not isinstance(field.type, Scalar), "a scalar field is read by load_field"
    tag = classes.tag("array fields")
    pointer = out.value(f"load ptr, ptr {_slot(out, record.pointer, field.slot)}, align 8{tag}")
    length = out.value(f"load i64, ptr {_slot(out, record.pointer, field.slot + 1)}, align 8{tag}")
    return ArrayOperand(field.type.element, pointer, length)
