"""`Instruction` and its encoding: values by field name, bits by `table.instruction_layout`.

`encode` and `decode` are inverse to each other for every legal instruction (a property test).
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from daedal.common.errors import ProgramError
from daedal.isa.table import (
    EXTENTS,
    HEADER,
    INSTRUCTIONS,
    AluOp,
    BitField,
    Opcode,
    Unit,
    instruction_bytes,
    instruction_layout,
)
from daedal.isa.variant import Variant

__all__ = [
    "Instruction",
    "decode",
    "decode_all",
    "encode",
    "encode_all",
    "reads_destination",
    "unit_mask",
    "units_of",
]


# By opcode, of which 0 is illegal: an index, because hashing an enumeration takes longer.
_UNITS = (Unit.FETCH, *(INSTRUCTIONS[opcode].unit for opcode in sorted(Opcode)))
assert all(_UNITS[opcode] is form.unit for opcode, form in INSTRUCTIONS.items())

_FIELD_NAMES = {
    opcode: frozenset(item.name for item in HEADER + form.fields)
    for opcode, form in INSTRUCTIONS.items()
}


def unit_mask(units: Iterable[Unit]) -> int:
    """Bit mask of `units` as the fields pop and push hold it."""
    mask = 0
    for unit in units:
        mask |= 1 << unit
    return mask


def units_of(mask: int) -> tuple[Unit, ...]:
    """Units of a pop or push mask, in order."""
    return tuple(unit for unit in (Unit.LOAD, Unit.GEMM, Unit.ALU, Unit.STORE) if mask >> unit & 1)


@dataclass(frozen=True)
class Instruction:
    """One task instruction: its opcode and the fields that are not 0, by name.

    Fields read as attributes (``instruction.rows``); those not given are 0. A field that the
    opcode does not have raises AttributeError.
    """

    opcode: Opcode
    values: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, opcode: Opcode, **values: int) -> "Instruction":
        """Build from keyword arguments; zeros are dropped, so equal instructions compare equal."""
        return cls(opcode, {name: int(value) for name, value in values.items() if value})

    def __reduce__(self) -> "tuple[type[Instruction], tuple[Opcode, Mapping[str, int]]]":
        # A copy without attributes, as pickle makes first, would ask `__getattr__` for its opcode.
        return Instruction, (self.opcode, dict(self.values))

    def __getattr__(self, name: str) -> int:
        if name not in _FIELD_NAMES[self.opcode]:
            raise AttributeError(f"{self.opcode.name} has no field {name!r}")
        return self.values.get(name, 0)

    @property
    def unit(self) -> Unit:
        """The unit that executes it."""
        return _UNITS[self.opcode]

    @property
    def steps(self) -> int:
        """Rows that a GEMM or ALU instruction computes; 0 for the others."""
        if self.unit not in (Unit.GEMM, Unit.ALU):
            return 0
        get = self.values.get
        extents = [get(name, 0) for name in EXTENTS]
        return math.prod(extents) * max(0, get("uop_end", 0) - get("uop_begin", 0))

    def replace(self, **values: int) -> "Instruction":
        """Copy with some fields changed."""
        merged = dict(self.values)
        for name, value in values.items():
            if value:
                merged[name] = int(value)
            else:
                merged.pop(name, None)
        return Instruction(self.opcode, merged)

    def shifted(self, distances: Mapping[str, int]) -> "Instruction":
        """Copy with these added to some fields."""
        moved = dict(self.values)
        for name, distance in distances.items():
            moved[name] = moved.get(name, 0) + distance
            if not moved[name]:
                del moved[name]
        return Instruction(self.opcode, moved)


def _bounds(item: BitField) -> tuple[int, int]:
    if item.field.signed:
        return -(1 << (item.width - 1)), (1 << (item.width - 1)) - 1
    return 0, (1 << item.width) - 1


def _checked(item: BitField, value: int, what: str) -> int:
    low, high = _bounds(item)
    if not low <= value <= high:
        raise ProgramError(f"{what}.{item.name} must be {low} to {high}, not {value}")
    if item.choices is not None and value not in item.choices:
        known = ", ".join(f"{c.name} = {c.value}" for c in item.choices)
        raise ProgramError(f"{what}.{item.name} must be one of {known}, not {value}")
    return value & ((1 << item.width) - 1)


def reads_destination(instruction: Instruction) -> bool:
    """Whether an ALU instruction is of the register form ``dst = op(dst, src)``."""
    return AluOp(instruction.operation).takes_x and not instruction.use_immediate


def encode(variant: Variant, instruction: Instruction) -> bytes:
    """Encode one instruction; ProgramError for a field that is unknown or out of range."""
    layout = instruction_layout(variant, instruction.opcode)
    word = int(instruction.opcode)
    for name, value in instruction.values.items():
        item = layout.get(name)
        if item is None or name == "opcode":
            raise ProgramError(f"{instruction.opcode.name} has no field {name!r}")
        word |= _checked(item, value, instruction.opcode.name) << item.offset
    for mask in ("pop", "push"):
        if (
            instruction.unit is not Unit.FETCH
            and getattr(instruction, mask) >> instruction.unit & 1
        ):
            raise ProgramError(
                f"{instruction.opcode.name}.{mask} must name other units, not its own"
            )
    return word.to_bytes(instruction_bytes(variant), "little")


def decode(variant: Variant, data: bytes) -> Instruction:
    """Decode one instruction; ProgramError for unknown codes or set bits outside all fields."""
    word = int.from_bytes(data, "little")
    code = word & 0xF
    if code not in Opcode._value2member_map_:
        known = ", ".join(f"{c.name} = {c.value}" for c in Opcode)
        raise ProgramError(f"an opcode must be one of {known}, not {code}")
    opcode = Opcode(code)
    values = {}
    rest = word
    for name, item in instruction_layout(variant, opcode).items():
        raw = word >> item.offset & ((1 << item.width) - 1)
        rest &= ~(((1 << item.width) - 1) << item.offset)
        if item.field.signed and raw >> (item.width - 1):
            raw -= 1 << item.width
        _checked(item, raw, opcode.name)
        if name != "opcode":
            values[name] = raw
    if rest:
        raise ProgramError(f"bits of {opcode.name} that no field uses must be 0, not {rest:#x}")
    return Instruction.of(opcode, **values)


def encode_all(variant: Variant, instructions: Iterable[Instruction]) -> bytes:
    """Encode a sequence; an error names the instruction's index."""
    parts = []
    for index, instruction in enumerate(instructions):
        try:
            parts.append(encode(variant, instruction))
        except ProgramError as error:
            raise ProgramError(f"instruction {index}: {error}") from None
    return b"".join(parts)


def decode_all(variant: Variant, data: bytes) -> list[Instruction]:
    """Decode a sequence; an error names the instruction's index."""
    size = instruction_bytes(variant)
    if len(data) % size:
        raise ProgramError(
            f"a program of variant {variant.name!r} must be a multiple of {size} bytes, "
            f"not {len(data)}"
        )
    result = []
    for index in range(len(data) // size):
        try:
            result.append(decode(variant, data[index * size : (index + 1) * size]))
        except ProgramError as error:
            raise ProgramError(f"instruction {index}: {error}") from None
    return result
