"""``daedal inspect``: what is inside an artifact, where each node runs, and what it costs."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from daedal.artifact.artifact import Artifact
from daedal.commands.options import ArtifactFile, ArtifactMemory, Json, check_outputs
from daedal.common.files import write_atomically
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
    html: Annotated[
        Path | None, typer.Option(help="Write a page with a picture of the parts.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the parts of ARTIFACT in order, its layers, and where each node of the model runs."""
    from daedal.inspection import inspect
    from daedal.reports.inspection import inspection_json, print_inspection
    from daedal.reports.inspection_page import inspection_page

    check_outputs(html)
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
    if html is not None:
        write_atomically(html, inspection_page(report, artifact.stem))
        err.print(escape(f"wrote {html}"))
