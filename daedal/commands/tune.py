"""``daedal tune``: measures schedules of a network's layers, and records them in a database."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from daedal.commands.options import (
    Json,
    Memory,
    PoolAddress,
    PoolCertificates,
    VariantName,
    check_outputs,
    needs_pool_packages,
)
from daedal.common.errors import TuningError
from daedal.common.files import write_atomically
from daedal.reports.console import make_console, print_json, print_wide, show_progress

if TYPE_CHECKING:
    from daedal.tuning.network import NetworkTuning
    from daedal.tuning.runner import MakeRunner

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
    seconds: Annotated[
        float | None, typer.Option(help="Stop after about this many seconds.")
    ] = None,
    memory: Annotated[Memory, typer.Option(help="Preset of the memory model.")] = Memory.ddr,
    explain: Annotated[
        list[str] | None,
        typer.Option(help="Why this layer's best schedule wins; may be repeated."),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page with curves.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the search.")] = 0,
    workers: Annotated[
        int, typer.Option(min=0, help="Worker processes on this machine; 0: measure in this one.")
    ] = 0,
    pool: PoolAddress = None,
    tls: PoolCertificates = None,
    timeout: Annotated[
        float | None,
        typer.Option(help="Seconds that a schedule may take on --workers or --pool; 120."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Tune the layers of MODEL for a variant; `daedal compile --records` uses the results.

    Every batch is recorded at once. Control-C shows what was found; the same command continues.
    With --explain and no budget, nothing is searched: the records are explained.
    """
    from daedal.compiler.tune.database import Database
    from daedal.compiler.version import cycles_version
    from daedal.isa.variant import load_variant
    from daedal.reports.explanation import explanation_json
    from daedal.reports.tuning import tuning_json
    from daedal.tuning.accelerator import AcceleratorTuning
    from daedal.tuning.budget import Budget
    from daedal.tuning.network import tune_network

    check_outputs(records, html)
    Budget(trials, seconds)  # refused before the database is made
    if trials is None and seconds is None and not explain:
        trials = _TRIALS
    chosen = load_variant(variant)
    with (
        show_progress(make_console(stderr=True)) as report,
        _measuring(workers, pool, tls, timeout, report) as make_runner,
        # What is refused before anything is measured leaves no empty file.
        Database(records, kit=cycles_version(), when_written=True, adopts=True) as database,
    ):
        tuning = tune_network(
            AcceleratorTuning(model, chosen, memory.value, make_runner=make_runner),
            database,
            trials=trials,
            seconds=seconds,
            seed=seed,
            explain=explain or (),
            samples=records.with_name(records.name + ".samples"),
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


@contextmanager
def _measuring(
    workers: int,
    address: str | None,
    tls: Path | None,
    timeout: float | None,
    report: Callable[[str], None],
) -> Iterator["MakeRunner"]:
    """What measures: this process, or a pool until the end of the block."""
    if not workers and address is None:
        if tls is not None or timeout is not None:
            raise TuningError("--tls and --timeout are for pools; give --workers or --pool, too")
        from daedal.tuning.layer_runner import LayerRunner

        yield LayerRunner
        return
    with needs_pool_packages():
        from daedal.tuning.pool import Pool
        from daedal.tuning.sandbox import TIMEOUT_SECONDS
    report("starting workers" if address is None else "joining the pool")
    seconds = TIMEOUT_SECONDS if timeout is None else timeout
    with Pool(workers=workers, address=address, tls=tls, timeout_seconds=seconds) as pool:
        yield pool.runner


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
