"""A program as a table of integers for the kernels: one line per instruction, one column per field.

Column numbers follow from `isa.table`: the common columns first, then the fields of the
instruction's own form in the table's order.
"""

from typing import Any

import numpy as np

from daedal.isa.instruction import Instruction
from daedal.isa.numerics import IntArray
from daedal.isa.program import Program
from daedal.isa.table import INSTRUCTIONS, Opcode

__all__ = ["COLUMNS", "AluColumn", "Column", "GemmColumn", "LoadColumn", "StoreColumn", "columns"]

_COMMON = ("opcode", "unit", "pop", "push")


def _numbers(opcode: Opcode) -> dict[str, int]:
    names = [item.name for item in INSTRUCTIONS[opcode].fields]
    return {name: len(_COMMON) + position for position, name in enumerate(names)}


# Classes whose attributes are column numbers: kernels treat ``GemmColumn.mode`` as a constant.
Column: Any = type("Column", (), {name: number for number, name in enumerate(_COMMON)})
LoadColumn: Any = type("LoadColumn", (), _numbers(Opcode.LOAD))
GemmColumn: Any = type("GemmColumn", (), _numbers(Opcode.GEMM))
AluColumn: Any = type("AluColumn", (), _numbers(Opcode.ALU))
StoreColumn: Any = type("StoreColumn", (), _numbers(Opcode.STORE))

COLUMNS = len(_COMMON) + max(len(form.fields) for form in INSTRUCTIONS.values())
"""Number of columns of every line."""

_FIELDS = {
    opcode: tuple(item.name for item in form.fields) for opcode, form in INSTRUCTIONS.items()
}


def _line(instruction: Instruction) -> list[int]:
    get = instruction.values.get
    names = _FIELDS[instruction.opcode]
    line = [int(instruction.opcode), int(instruction.unit), get("pop", 0), get("push", 0)]
    line += [get(name, 0) for name in names]
    return line + [0] * (COLUMNS - len(line))


def columns(program: Program) -> IntArray:
    """The program's instructions, shape (instructions, COLUMNS), int64."""
    lines = [_line(instruction) for instruction in program.instructions]
    return np.array(lines, dtype=np.int64).reshape(len(lines), COLUMNS)
