"""``daedal trace``: where the RTL and the functional simulator part."""

from pathlib import Path
from typing import Annotated

import typer

from daedal.artifact.artifact import Artifact
from daedal.commands.npz import load_arrays
from daedal.commands.options import ArtifactFile, ArtifactMemory, Assertions, Json
from daedal.reports.console import make_console, print_json, show_progress

__all__ = ["trace_command"]


def trace_command(
    artifact: ArtifactFile,
    inputs: Annotated[
        Path | None,
        typer.Option("--input", "-i", help="A .npz of inputs by name; without it, random tensors."),
    ] = None,
    memory: ArtifactMemory = None,
    seed: Annotated[int, typer.Option(help="Seed of random tensors and of memory jitter.")] = 0,
    simulator: Annotated[
        str, typer.Option(metavar="verilator|icarus", help="The simulator.")
    ] = "verilator",
    assertions: Assertions = False,
    as_json: Json = False,
) -> None:
    """Run ARTIFACT on the RTL and on the functional simulator, up to the first difference.

    The exit status is 1 if there is one.
    """
    from daedal.reports.trace import print_trace, trace_json
    from daedal.tracing import trace

    loaded = Artifact.load(artifact)
    timing = loaded.memory_or(memory, seed)
    arrays = load_arrays(inputs) if inputs is not None else None
    with show_progress(make_console(stderr=True)) as report:
        found = trace(
            loaded,
            arrays,
            seed=seed,
            timing=timing,
            simulator=simulator,
            assertions=assertions,
            report=report,
            progress=lambda done, total: report(f"trace: {done} of {total} done"),
        )
    if as_json:
        print_json(trace_json(found, loaded, seed))
    else:
        print_trace(make_console(), found, loaded)
    if found.difference is not None:
        raise typer.Exit(1)
