"""``daedal tune``: measures schedules of a network's layers, and records them in a database."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from daedal.commands.options import (
    VARIANT_OPTION,
    Json,
    MemoryName,
    PoolAddress,
    PoolCertificates,
    check_outputs,
    complete_target,
)
from daedal.common.errors import TuningError
from daedal.common.files import write_atomically
from daedal.reports.console import make_console, print_json, print_tables, show_progress

if TYPE_CHECKING:
    from daedal.tuning.network import NetworkTuning

__all__ = ["tune_command"]

_INTERRUPTED = 130


def tune_command(
    model: Annotated[
        Path, typer.Argument(help="An ONNX model: int8 QDQ, or any for targets cpu and gpu.")
    ],
    records: Annotated[
        Path, typer.Option("--records", "-r", help="The database; created if it does not exist.")
    ],
    target: Annotated[
        str | None,
        typer.Option(
            metavar="TARGET",
            autocompletion=complete_target,
            help="VARIANT, or cpu or gpu of this machine.  [default: vta]",
        ),
    ] = None,
    variant: Annotated[
        str | None,
        VARIANT_OPTION,
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(help="Schedules to measure at most; 256 without --seconds."),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Stop after about this many seconds.")
    ] = None,
    memory: MemoryName = "ddr",
    explain: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LAYER",
            help="Explain why this layer's best schedule is faster; may be repeated.",
        ),
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
    """Tune MODEL for a variant, processor or GPU; `daedal compile --records` uses the results.

    Every batch is recorded at once. Control-C shows what was found; the same command continues.
    With --explain and no budget, nothing is searched: the records are explained.
    """
    from daedal.isa.memory_file import load_memory, memory_key
    from daedal.reports.explanation import explanation_json
    from daedal.reports.tuning import tuning_json
    from daedal.tuning.tune import tune, variant_to_tune

    check_outputs(records, html)
    if target is None and variant is None:
        variant = "vta"
    chosen = variant_to_tune(variant, target)
    if chosen is None and html is not None:
        raise TuningError(f"--html is for accelerators; leave it out for target {target}")
    with show_progress(make_console(stderr=True)) as report:
        tuning = tune(
            model,
            records,
            chosen,
            target=target if chosen is None else None,
            trials=trials,
            seconds=seconds,
            memory=memory,
            explain=explain or (),
            seed=seed,
            workers=workers,
            pool=pool,
            tls=tls,
            timeout_seconds=timeout,
            report=report,
        )
    if html is not None:
        from daedal.reports.tuning_page import tuning_page

        assert chosen is not None, "it was just checked"
        page = tuning_page(
            tuning,
            name=model.stem,
            variant=chosen,
            memory=memory_key(load_memory(memory)),
            records=str(records),
        )
        write_atomically(html, page)
    if as_json:
        explained = [explanation_json(item) for item in tuning.explanations]
        print_json({**tuning_json(tuning), "explanations": explained})
    else:
        _show(tuning, str(records))
        if chosen is None and tuning.other_machines:
            make_console(stderr=True).print(
                escape(
                    f"records of other {tuning.machine}s in {records} were not used: "
                    f"{', '.join(tuning.other_machines)}"
                )
            )
    if html is not None:
        make_console(stderr=True).print(f"wrote {escape(str(html))}")
    if tuning.selection is None:
        raise typer.Exit(_INTERRUPTED)


def _show(tuning: "NetworkTuning", records: str) -> None:
    from daedal.reports.explanation import explanation_lines, explanation_tables
    from daedal.reports.tuning import tuning_lines, tuning_table

    console = make_console()
    print_tables(console, tuning_table(tuning))
    for line in tuning_lines(tuning, records):
        console.print(escape(line))
    for item in tuning.explanations:
        console.print()
        for line in explanation_lines(item):
            console.print(escape(line))
        for table in explanation_tables(item):
            print_tables(console, table)
