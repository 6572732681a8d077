"""``daedal explore``: searches hardware parameters and schedules together."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from daedal.commands.options import Json, Memory
from daedal.hw.synth.families import Target
from daedal.isa.errors import ExploreError
from daedal.reports.console import make_console, print_json, print_wide, show_progress

__all__ = ["explore_command"]

_INTERRUPTED = 130


def explore_command(
    models: Annotated[list[Path], typer.Argument(help="int8 QDQ ONNX models.")],
    target: Annotated[Target, typer.Option(help="The device.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the results.")],
    objective: Annotated[
        str, typer.Option(help="What to minimize, separated by commas: latency, area.")
    ] = "latency,area",
    limit: Annotated[
        list[str] | None,
        typer.Option(help="A limit, such as latency=1.5 (ms) or area=50 (%); may be repeated."),
    ] = None,
    budget: Annotated[float | None, typer.Option(metavar="MINUTES", help="Time to search.")] = None,
    evaluations: Annotated[
        int | None, typer.Option(help="Variants to compile instead of a time.")
    ] = None,
    base: Annotated[
        str, typer.Option(help="Variant whose other parameters all results have.")
    ] = "ecp5",
    clock: Annotated[
        float | None, typer.Option(metavar="MHZ", help="Clock of every variant; else estimated.")
    ] = None,
    memory: Annotated[Memory, typer.Option(help="Preset of the memory model.")] = Memory.ddr,
    seed: Annotated[int, typer.Option(help="Of the search.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Processes that compile.")] = 2,
    as_json: Json = False,
) -> None:
    """Search variants that run MODELS fastest in the least area, and the programs for them.

    Estimates of cycles, area and clock choose which variants are compiled and counted; these make
    the Pareto front. Control-C writes the front so far; the same command continues.
    """
    from daedal.codesign.explore import MOST_AREA, explore
    from daedal.codesign.objectives import parse_limits, parse_objectives
    from daedal.codesign.search import Goal
    from daedal.compiler.frontend.reader import read_model
    from daedal.isa.variant import load_variant
    from daedal.reports.exploration import exploration_lines, exploration_table

    goal = Goal(parse_objectives(objective), parse_limits(limit or ()), MOST_AREA)
    if budget is None and evaluations is None:
        budget = 10.0
    if clock is not None and clock <= 0:
        raise ExploreError(f"a clock is above 0 MHz, not {clock:g}")
    names = [path.stem for path in models]
    if len(set(names)) < len(names):
        raise ExploreError("networks need different file names, which name them in the results")
    networks = {
        path.stem: read_model(path).SerializeToString(deterministic=True) for path in models
    }
    with show_progress(make_console(stderr=True)) as report:
        found = explore(
            networks,
            target,
            goal,
            output,
            minutes=budget,
            evaluations=evaluations,
            base=load_variant(base),
            mhz=clock,
            memory=memory.value,
            seed=seed,
            workers=workers,
            report=report,
        )
    if as_json:
        print_json(
            {
                "front": [item.to_json() for item in found.front],
                "counted": found.counted,
                "refused": found.refused,
                "estimated": found.estimated,
            }
        )
    else:
        console = make_console()
        print_wide(console, exploration_table(found.front, goal))
        for line in exploration_lines(found, output):
            console.print(escape(line))
    if found.interrupted:
        raise typer.Exit(_INTERRUPTED)
