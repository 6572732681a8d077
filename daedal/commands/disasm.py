"""``daedal disasm``: the instructions of a program as assembly."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from daedal.commands.options import Json
from daedal.isa.artifact import Artifact
from daedal.isa.assembly import disassemble
from daedal.isa.errors import ArtifactError
from daedal.isa.program import Program
from daedal.reports.console import print_json

__all__ = ["disasm_command"]


def disasm_command(
    file: Annotated[Path, typer.Argument(help="An artifact or a program.")],
    numbered: Annotated[bool, typer.Option(help="Number the instructions.")] = True,
    as_json: Json = False,
) -> None:
    """Print the instructions of FILE as assembly, which the assembler reads back."""
    program = _load_program(file)
    if as_json:
        print_json([{"opcode": item.opcode.name, **item.values} for item in program.instructions])
        return
    sys.stdout.write(disassemble(program.instructions, numbered=numbered))


def _load_program(path: Path) -> Program:
    try:
        return Artifact.load(path).program
    except ArtifactError as first:
        try:
            return Program.load(path)
        except ArtifactError:
            raise first from None
