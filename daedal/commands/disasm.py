"""``daedal disasm``: the instructions of a program as assembly."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from daedal.artifact.artifact import Artifact
from daedal.commands.options import Json, check_outputs
from daedal.common.errors import ArtifactError, UserError
from daedal.common.files import write_atomically
from daedal.isa.assembly import disassemble
from daedal.isa.program import Program
from daedal.reports.console import json_text, make_console

__all__ = ["disasm_command"]


def disasm_command(
    file: Annotated[Path, typer.Argument(help="An artifact or a program.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write to this file instead of standard output."),
    ] = None,
    launch: Annotated[int, typer.Option(help="Which launch of an artifact, from 0.")] = 0,
    numbered: Annotated[bool, typer.Option(help="Number the instructions.")] = True,
    as_json: Json = False,
) -> None:
    """Print the instructions of FILE as assembly, which the assembler accepts."""
    check_outputs(output)
    programs = _load_programs(file)
    if not 0 <= launch < len(programs):
        raise UserError(f"--launch must be from 0 to {len(programs) - 1}, not {launch}")
    program = programs[launch]
    if as_json:
        text = json_text(
            [{"opcode": item.opcode.name, **item.values} for item in program.instructions]
        )
    else:
        title = f"# launch {launch} of {len(programs)}\n" if len(programs) > 1 else ""
        text = title + disassemble(program.instructions, numbered=numbered)
    if output is None:
        sys.stdout.write(text)
    else:
        write_atomically(output, text)
        make_console(stderr=True).print(
            escape(f"{output}: {len(program.instructions):,} instructions")
        )


def _load_programs(path: Path) -> list[Program]:
    try:
        return [launch.program for launch in Artifact.load(path).launches]
    except ArtifactError as first:
        try:
            return [Program.load(path)]
        except ArtifactError:
            raise first from None
