"""``daedal inspect``: what is inside an artifact, where each node runs, and what it costs."""

from typing import Annotated

import typer
from rich.markup import escape

from daedal.artifact.artifact import Artifact
from daedal.commands.options import ArtifactFile, ArtifactMemory, Json
from daedal.reports.console import make_console, print_json

__all__ = ["inspect_command"]


def inspect_command(
    artifact: ArtifactFile,
    memory: ArtifactMemory = None,
    mhz: Annotated[
        float, typer.Option(min=1e-3, help="Clock of the accelerator, for shares of time.")
    ] = 100.0,
    time_host: Annotated[
        bool, typer.Option(help="Run the host's parts on zeros to measure their time.")
    ] = True,
    as_json: Json = False,
) -> None:
    """Show the parts of ARTIFACT in order, its layers, and where each node of the model runs."""
    from daedal.inspection import inspect
    from daedal.reports.inspection import inspection_json, print_inspection

    err = make_console(stderr=True)
    report = inspect(
        Artifact.load(artifact),
        memory=memory,
        mhz=mhz,
        time_host=time_host,
        warn=lambda sentence: err.print(escape(sentence)),
    )
    if as_json:
        print_json(inspection_json(report))
    else:
        print_inspection(make_console(), report)
