"""``daedal diff``: what moved between two profiles."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from daedal.commands.options import Json
from daedal.reports.console import make_console, print_json, print_tables

__all__ = ["diff_command"]

_out = make_console()


def diff_command(
    before: Annotated[Path, typer.Argument(help="What `daedal profile --output` wrote.")],
    after: Annotated[Path, typer.Argument(help="The profile to compare with it.")],
    as_json: Json = False,
) -> None:
    """Compare two profiles layer by layer, the largest change first."""
    from daedal.reports.profile import conditions_text, diff_table
    from daedal.runtime.profiler.diff import diff_profiles
    from daedal.runtime.profiler.reader import load_profile

    diff = diff_profiles(load_profile(before), load_profile(after))
    if as_json:
        print_json(diff.to_json())
        return
    _out.print(escape(conditions_text(diff)), end="")
    print_tables(_out, diff_table(diff))
    _out.print(escape(diff.summary))
