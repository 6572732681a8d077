"""``daedal tune``: measures schedules of a network's layers, and records them in a database."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from daedal.commands.options import Json, Memory, VariantName, check_outputs
from daedal.isa.files import write_atomically
from daedal.reports.console import make_console, print_json, print_wide, show_progress

if TYPE_CHECKING:
    from daedal.tuning.network import NetworkTuning

__all__ = ["tune_command"]

_TRIALS = 256
"""Without a budget."""
_INTERRUPTED = 130


def tune_command(
    model: Annotated[Path, typer.Argument(help="An int8 QDQ ONNX model.")],
    records: Annotated[
        Path, typer.Option("--records", "-r", help="The database, made unless it exists.")
    ],
    variant: VariantName = "vta",
    trials: Annotated[
        int | None,
        typer.Option(help=f"Schedules to measure at most; {_TRIALS} without --seconds."),
    ] = None,
    seconds: Annotated[float | None, typer.Option(help="Stop after about so many seconds.")] = None,
    memory: Annotated[Memory, typer.Option(help="Preset of the memory model.")] = Memory.ddr,
    explain: Annotated[
        list[str] | None,
        typer.Option(help="Why this layer's best schedule wins; may be repeated."),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page with curves.")] = None,
    seed: Annotated[int, typer.Option(help="Of the search.")] = 0,
    as_json: Json = False,
) -> None:
    """Tune the layers of MODEL for a variant; `daedal compile --records` uses the results.

    Every batch is recorded at once. Control-C shows what was found; the same command continues.
    With --explain and no budget, nothing is searched: the records are explained.
    """
    from daedal.compiler.tune.database import Database
    from daedal.compiler.version import compiler_version
    from daedal.isa.variant import load_variant
    from daedal.reports.explanation import explanation_json
    from daedal.reports.tuning import tuning_json
    from daedal.tuning.budget import Budget
    from daedal.tuning.network import tune_network

    check_outputs(records, html)
    Budget(trials, seconds)  # refused before the database is made
    if trials is None and seconds is None and not explain:
        trials = _TRIALS
    chosen = load_variant(variant)
    with (
        Database(records, kit=compiler_version()) as database,
        show_progress(make_console(stderr=True)) as report,
    ):
        tuning = tune_network(
            model,
            chosen,
            database,
            trials=trials,
            seconds=seconds,
            memory=memory.value,
            seed=seed,
            explain=explain or (),
            report=report,
        )
    if html is not None:
        from daedal.reports.tuning_page import tuning_page

        page = tuning_page(
            tuning, name=model.stem, variant=chosen, memory=memory.value, records=str(records)
        )
        write_atomically(html, page)
    if as_json:
        explained = [explanation_json(item) for item in tuning.explanations]
        print_json({**tuning_json(tuning), "explanations": explained})
    else:
        _show(tuning, str(records))
    if html is not None:
        make_console(stderr=True).print(f"wrote {escape(str(html))}")
    if tuning.selection is None:
        raise typer.Exit(_INTERRUPTED)


def _show(tuning: "NetworkTuning", records: str) -> None:
    from daedal.reports.explanation import explanation_lines, explanation_tables
    from daedal.reports.tuning import tuning_lines, tuning_table

    console = make_console()
    print_wide(console, tuning_table(tuning))
    for line in tuning_lines(tuning, records):
        console.print(escape(line))
    for item in tuning.explanations:
        console.print()
        for line in explanation_lines(item):
            console.print(escape(line))
        for table in explanation_tables(item):
            print_wide(console, table)
