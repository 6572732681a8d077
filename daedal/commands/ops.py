"""``daedal ops``: the operators of ONNX models, and where each runs."""

from dataclasses import asdict
from typing import Annotated

import typer

from daedal.commands.options import Json
from daedal.common.errors import UserError
from daedal.reports.console import make_console, print_json, print_tables

__all__ = ["ops_command"]


def ops_command(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Parts of operator names, in upper or lower case; by default all operators."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the operators that models may have: opsets, where they run, under which limits."""
    from daedal.compiler.supported import supported_operators
    from daedal.reports.operators import operators_table

    parts = [name.lower() for name in names or ()]
    found = [
        item
        for item in supported_operators()
        if not parts or any(part in item.name.lower() for part in parts)
    ]
    if not found:
        raise UserError(
            f"a name must be part of an operator's; no operator has {' or '.join(parts)!r:.80}: "
            "daedal ops lists all"
        )
    if as_json:
        print_json([asdict(item) for item in found])
    else:
        print_tables(make_console(), operators_table(found))
