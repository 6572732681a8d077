"""`Columns`: the fields of all instructions of a program as arrays."""

from itertools import chain

import numpy as np
import numpy.typing as npt

from daedal.isa.program import Program
from daedal.isa.table import HEADER, INSTRUCTIONS, Opcode, Unit

__all__ = ["PADS", "SIZES", "Columns", "Ints"]

Ints = npt.NDArray[np.int64]

SIZES = ("blocks", "rows", "cols")
PADS = ("pad_top", "pad_bottom", "pad_left", "pad_right")

_FIELDS = {
    name: number
    for number, name in enumerate(
        dict.fromkeys(
            item.name for form in INSTRUCTIONS.values() for item in (*HEADER, *form.fields)
        )
    )
}
"""A number for every field of any instruction."""


class Columns:
    """Fields of all instructions by name, one column per field; 0 where an instruction lacks it."""

    def __init__(self, program: Program) -> None:
        self.variant = program.variant
        self.count = len(program.instructions)
        self.opcode = np.array([item.opcode for item in program.instructions], dtype=np.int64)
        values = [item.values for item in program.instructions]
        names = chain.from_iterable(values)
        fields = np.fromiter(map(_FIELDS.__getitem__, names), dtype=np.int64)
        owners = np.repeat(np.arange(self.count), [len(item) for item in values])
        self._columns = np.zeros((len(_FIELDS), self.count), dtype=np.int64)
        self._columns[fields, owners] = np.fromiter(
            chain.from_iterable(item.values() for item in values), dtype=np.int64
        )

    def get(self, name: str, *opcodes: Opcode) -> Ints:
        """The field of instructions with these opcodes."""
        return np.where(np.isin(self.opcode, opcodes), self._columns[_FIELDS[name]], 0)

    @property
    def unit(self) -> Ints:
        """The unit of each instruction: the opcodes count them from 1."""
        return self.opcode - Opcode.LOAD + Unit.LOAD
