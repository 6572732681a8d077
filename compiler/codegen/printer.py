"""Readable text of segments, for dumps and tests."""

from daedal.compiler.codegen.segment import Instance, Segment, SegmentInstruction
from daedal.isa.instruction import Instruction
from daedal.isa.table import INSTRUCTIONS, AluOp, LoadMemory, Opcode, OutMemory

__all__ = ["segment_text"]


def segment_text(segment: Segment) -> str:
    """One line per instruction: fields that are not 0, then the rows it touches.

    ``gemm acc_base=0 extent0=4 ... uops=9 | acc#0[0:20] rw, x_inp#1[0:42] r``; instances are
    numbered in order of their first use.
    """
    numbers: dict[Instance, int] = {}
    lines = [f"segment {segment.name}:"]
    for tensor, size in segment.tensors.items():
        lines.append(f"  tensor {tensor}: {size} bytes")
    for item in segment.instructions:
        lines.append(f"  {_fields(item)} | {_rows(item, numbers)}")
    return "\n".join(lines) + "\n"


def _fields(item: SegmentInstruction) -> str:
    template = item.template
    parts = [template.opcode.name.lower()]
    if item.tensor is not None:
        parts.append(repr(item.tensor))
    for field in INSTRUCTIONS[template.opcode].fields:
        value = _value(template, field.name)
        if value is not None:
            parts.append(f"{field.name}={value}")
    if item.uops is not None:
        parts.append(f"uops={len(item.uops)}")
    return " ".join(parts)


def _value(template: Instruction, name: str) -> str | None:
    if template.opcode is Opcode.LOAD and name == "memory":
        return LoadMemory(template.memory).name.lower()
    if template.opcode is Opcode.STORE and name == "memory":
        return OutMemory(template.memory).name.lower()
    if name == "operation":
        return AluOp(template.operation).name.lower()
    value = template.values.get(name, 0)
    return str(value) if value else None


def _rows(item: SegmentInstruction, numbers: dict[Instance, int]) -> str:
    parts = []
    for access in item.rows:
        number = numbers.setdefault(access.instance, len(numbers))
        kind = ("r" if access.reads else "") + ("w" if access.writes else "")
        name = f"{access.instance.name}#{number}"
        parts += [f"{name}[{begin}:{end}] {kind}" for begin, end in access.runs]
    return ", ".join(parts)
