"""``daedal disasm``: the instructions of a program as assembly."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from daedal.artifact.artifact import Artifact
from daedal.commands.options import Json
from daedal.common.errors import ArtifactError, UserError
from daedal.isa.assembly import disassemble
from daedal.isa.program import Program
from daedal.reports.console import print_json

__all__ = ["disasm_command"]


def disasm_command(
    file: Annotated[Path, typer.Argument(help="An artifact or a program.")],
    launch: Annotated[int, typer.Option(help="Which launch of an artifact, from 0.")] = 0,
    numbered: Annotated[bool, typer.Option(help="Number the instructions.")] = True,
    as_json: Json = False,
) -> None:
    """Print the instructions of FILE as assembly, which the assembler accepts."""
    programs = _load_programs(file)
    if not 0 <= launch < len(programs):
        raise UserError(f"--launch must be from 0 to {len(programs) - 1}, not {launch}")
    program = programs[launch]
    if as_json:
        print_json([{"opcode": item.opcode.name, **item.values} for item in program.instructions])
        return
    if len(programs) > 1:
        sys.stdout.write(f"# launch {launch} of {len(programs)}\n")
    sys.stdout.write(disassemble(program.instructions, numbered=numbered))


def _load_programs(path: Path) -> list[Program]:
    try:
        return [launch.program for launch in Artifact.load(path).launches]
    except ArtifactError as first:
        try:
            return [Program.load(path)]
        except ArtifactError:
            raise first from None
