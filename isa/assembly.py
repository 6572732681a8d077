"""Assembler and disassembler: one instruction per line, fields named as in the table.

A line is ``MNEMONIC name=value ...``; fields that are 0 are left out. Values are integers
(decimal or 0x), names for fields with choices (``memory=INP``), the names of base registers
(``base=inputs``) and comma lists of units for tokens (``pop=LOAD,ALU``). ``#`` starts a comment.
``assemble(disassemble(x)) == x`` for every program.
"""

from collections.abc import Iterable

from daedal.common.errors import ProgramError
from daedal.isa.instruction import Instruction, unit_mask, units_of
from daedal.isa.table import BASES, HEADER, INSTRUCTIONS, Field, Opcode, Unit

__all__ = ["assemble", "disassemble", "format_instruction", "parse_instruction"]

_MASKS = ("pop", "push")


def format_instruction(instruction: Instruction) -> str:
    """One instruction as a line of assembly."""
    words = [instruction.opcode.name]
    for item in HEADER[1:] + INSTRUCTIONS[instruction.opcode].fields:
        value = instruction.values.get(item.name, 0)
        # Named choices are shown even if their code is 0.
        if value or item.choices is not None:
            words.append(f"{item.name}={_format_value(item, value)}")
    return " ".join(words)


def _format_value(item: Field, value: int) -> str:
    if item.name in _MASKS:
        return ",".join(unit.name for unit in units_of(value))
    if item.name == "base":
        return BASES[value]
    return item.choices(value).name if item.choices is not None else str(value)


def disassemble(instructions: Iterable[Instruction], *, numbered: bool = False) -> str:
    """A program as text; `numbered` appends each instruction's index as a comment."""
    lines = []
    for index, instruction in enumerate(instructions):
        line = format_instruction(instruction)
        lines.append(f"{line}  # {index}" if numbered else line)
    return "".join(line + "\n" for line in lines)


def parse_instruction(line: str) -> Instruction:
    """Parse one line without its comment. Raises ProgramError for unknown names or values."""
    mnemonic, *words = line.split()
    if mnemonic not in Opcode.__members__:
        raise ProgramError(
            f"a mnemonic must be one of {', '.join(Opcode.__members__)}, not {mnemonic!r}"
        )
    opcode = Opcode[mnemonic]
    fields = {item.name: item for item in HEADER[1:] + INSTRUCTIONS[opcode].fields}
    values: dict[str, int] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or name not in fields:
            raise ProgramError(f"{mnemonic} takes name=value with a name of its own, not {word!r}")
        if name in values:
            raise ProgramError(f"{mnemonic}.{name} must be given once, not twice")
        values[name] = _parse_value(fields[name], text, mnemonic)
    return Instruction.of(opcode, **values)


def _parse_value(item: Field, text: str, mnemonic: str) -> int:
    if item.name in _MASKS:
        names = [name for name in text.split(",") if name]
        known = [unit.name for unit in Unit if unit is not Unit.FETCH]
        for name in names:
            if name not in known:
                raise ProgramError(
                    f"{mnemonic}.{item.name} must list units of {', '.join(known)}, not {name!r}"
                )
        return unit_mask(Unit[name] for name in names)
    if item.name == "base" and text in BASES:
        return BASES.index(text)
    if item.choices is not None and text in item.choices.__members__:
        return int(item.choices[text])
    try:
        return int(text, 0)
    except ValueError:
        names = list(item.choices.__members__) if item.choices is not None else ["an integer"]
        raise ProgramError(
            f"{mnemonic}.{item.name} must be {' or '.join(names)}, not {text!r}"
        ) from None


def assemble(text: str) -> list[Instruction]:
    """Parse a program; an error names the line."""
    result = []
    for number, line in enumerate(text.splitlines(), start=1):
        code = line.partition("#")[0].strip()
        if code:
            try:
                result.append(parse_instruction(code))
            except ProgramError as error:
                raise ProgramError(f"line {number}: {error}") from None
    return result
