"""``daedal tune``: measures schedules of a network's layers, and records them in a database."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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
    needs_pool_packages,
)
from daedal.common.errors import TuningError, UserError
from daedal.common.files import write_atomically
from daedal.reports.console import make_console, print_json, print_wide, show_progress

if TYPE_CHECKING:
    from daedal.isa.memory_model import MemoryModel
    from daedal.isa.variant import Variant
    from daedal.tuning.network import NetworkTuning
    from daedal.tuning.runner import MakeRunner
    from daedal.tuning.target import TuningTarget

__all__ = ["tune_command"]

_TRIALS = 256
"""Without a budget."""
_INTERRUPTED = 130


def tune_command(
    model: Annotated[
        Path, typer.Argument(help="An ONNX model: int8 QDQ, or any for targets cpu and gpu.")
    ],
    records: Annotated[
        Path, typer.Option("--records", "-r", help="The database, made unless it exists.")
    ],
    target: Annotated[
        str | None, typer.Option(help="VARIANT, or cpu or gpu of this machine.  [default: vta]")
    ] = None,
    variant: Annotated[
        str | None,
        VARIANT_OPTION,
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(help=f"Schedules to measure at most; {_TRIALS} without --seconds."),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Stop after about this many seconds.")
    ] = None,
    memory: MemoryName = "ddr",
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
    """Tune MODEL for a variant, processor or GPU; `daedal compile --records` uses the results.

    Every batch is recorded at once. Control-C shows what was found; the same command continues.
    With --explain and no budget, nothing is searched: the records are explained.
    """
    from daedal.api import target_variant
    from daedal.compiler.tune.database import Database
    from daedal.compiler.version import cycles_version
    from daedal.isa.memory_file import load_memory, memory_key
    from daedal.reports.explanation import explanation_json
    from daedal.reports.tuning import tuning_json
    from daedal.tuning.budget import Budget
    from daedal.tuning.network import tune_network
    from daedal.tuning.selection import other_machines
    from daedal.tuning.target import Setting

    check_outputs(records, html)
    behind = load_memory(memory)
    Budget(trials, seconds)  # refused before the database is made
    if trials is None and seconds is None and not explain:
        trials = _TRIALS
    if target is None and variant is None:
        variant = "vta"
    chosen = target_variant(variant, target)
    if chosen is None:
        _check_clocked(target, [html, explain, workers, pool, tls, timeout])
    with (
        show_progress(make_console(stderr=True)) as report,
        _measuring(workers, pool, tls, timeout, report) as make_runner,
        _tuned(model, target, chosen, behind, make_runner) as network,
        # What is refused before anything is measured leaves no empty file.
        Database(records, kit=cycles_version(), when_written=True, adopts=True) as database,
    ):
        tuning = tune_network(
            network,
            database,
            trials=trials,
            seconds=seconds,
            seed=seed,
            explain=explain or (),
            samples=_samples(records, network.place.target),
            report=report,
        )
        others = other_machines(Setting(network.place, database))
    if html is not None:
        from daedal.reports.tuning_page import tuning_page

        assert chosen is not None, "it was just checked"
        page = tuning_page(
            tuning, name=model.stem, variant=chosen, memory=memory_key(behind), records=str(records)
        )
        write_atomically(html, page)
    if as_json:
        explained = [explanation_json(item) for item in tuning.explanations]
        print_json({**tuning_json(tuning), "explanations": explained})
    else:
        _show(tuning, str(records))
        if chosen is None and others:
            _say_others(others, records, network.place.machine)
    if html is not None:
        make_console(stderr=True).print(f"wrote {escape(str(html))}")
    if tuning.selection is None:
        raise typer.Exit(_INTERRUPTED)


def _check_clocked(target: str | None, options: Sequence[object]) -> None:
    """Refuse what needs an accelerator, and targets without a clock of their own."""
    from daedal.api import GPU, is_cpu

    if not is_cpu(target) and target != GPU:
        raise UserError(f"a target to tune must be a variant, cpu or gpu, not {target!r}")
    if any(options):
        raise TuningError(
            "--html, --explain, --workers, --pool, --tls and --timeout are for accelerators; leave "
            f"them out for target {target}"
        )


@contextmanager
def _tuned(
    model: Path,
    target: str | None,
    variant: "Variant | None",
    memory: "MemoryModel",
    make_runner: "MakeRunner",
) -> Iterator["TuningTarget"]:
    """The network on its target, until the end of the block."""
    from daedal.tuning.accelerator import AcceleratorTuning

    if variant is not None:
        yield AcceleratorTuning(model, variant, memory, make_runner=make_runner)
        return
    from daedal.api import GPU

    if target == GPU:
        from daedal.tuning.gpu import GpuTuning, gpu_to_tune

        yield GpuTuning(model, gpu_to_tune())
        return
    from daedal.tuning.cpu import CpuTuning
    from daedal.tuning.stopwatch import ChildStopwatch

    with ChildStopwatch() as stopwatch:
        yield CpuTuning(model, stopwatch)


def _samples(records: Path, target: str) -> Path:
    """The file of what models learn from, one for each kind of machine."""
    kind = "" if target == "accelerator" else f".{target}"
    return records.with_name(f"{records.name}{kind}.samples")


def _say_others(others: Sequence[str], records: Path, machine: str) -> None:
    """Tell of records that did not count."""
    make_console(stderr=True).print(
        escape(f"records of other {machine}s in {records} were not used: {', '.join(others)}")
    )


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
