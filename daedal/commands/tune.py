"""``daedal tune``: measures schedules of a network's layers, and records them in a database."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from daedal.commands.options import Json, Memory, VariantName
from daedal.isa.errors import TuningError
from daedal.reports.console import make_console, print_json, print_tables, show_progress

__all__ = ["tune_command"]


def tune_command(
    model: Annotated[Path, typer.Argument(help="An int8 QDQ ONNX model.")],
    records: Annotated[
        Path, typer.Option("--records", "-r", help="The database, made unless it exists.")
    ],
    variant: VariantName = "vta",
    trials: Annotated[int, typer.Option(help="Schedules to measure at most.")] = 256,
    seconds: Annotated[float | None, typer.Option(help="Stop after about so many seconds.")] = None,
    memory: Annotated[Memory, typer.Option(help="Preset of the memory model.")] = Memory.ddr,
    seed: Annotated[int, typer.Option(help="Of the search.")] = 0,
    as_json: Json = False,
) -> None:
    """Tune the layers of MODEL for a variant; `daedal compile --records` uses the results.

    Every batch is recorded at once: an interrupted run continues where it ended.
    """
    from daedal.compiler.tune.database import Database
    from daedal.isa.variant import load_variant
    from daedal.reports.tuning import tuning_json, tuning_lines, tuning_table
    from daedal.tuning.network import compiler_version, tune_network

    if seconds is not None and not seconds > 0:
        raise TuningError(f"seconds must be more than 0, not {seconds:g}; leave the option out")
    chosen = load_variant(variant)
    with (
        Database(records, kit=compiler_version()) as database,
        show_progress(make_console(stderr=True)) as report,
    ):
        results = tune_network(
            model,
            chosen,
            database,
            trials=trials,
            seconds=float("inf") if seconds is None else seconds,
            memory=memory.value,
            seed=seed,
            report=report,
        )
    if as_json:
        print_json(tuning_json(results))
        return
    console = make_console()
    print_tables(console, tuning_table(results))
    for line in tuning_lines(results, str(records)):
        console.print(escape(line))
