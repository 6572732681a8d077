"""``daedal explore``: searches hardware parameters and schedules together."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from daedal.commands.options import (
    BOARDS,
    MEASURED,
    MEMORY,
    HostRatesOf,
    Json,
    PoolAddress,
    PoolCertificates,
)
from daedal.common.files import write_atomically
from daedal.hw.synth.families import Target
from daedal.isa.variant import shipped_variants
from daedal.reports.console import make_console, print_json, print_tables, show_progress

if TYPE_CHECKING:
    from daedal.codesign.exploration import Exploration
    from daedal.codesign.results.verify import Verified

__all__ = ["explore_command"]

_INTERRUPTED = 130


def explore_command(
    models: Annotated[list[Path], typer.Argument(help="int8 QDQ ONNX models.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the results.")],
    fpga: Annotated[Target | None, typer.Option(help="The FPGA.")] = None,
    board: Annotated[
        str | None,
        typer.Option(
            metavar="BOARD|FILE",
            help="A board instead of a device, with its memory, the clock that this allows, and "
            f"the area of its logic; {BOARDS}.",
        ),
    ] = None,
    objective: Annotated[
        str,
        typer.Option(
            metavar="NAMES", help="What to minimize, separated by commas: latency, area, energy."
        ),
    ] = "latency,area",
    limit: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="A limit: latency (ms), energy (relative), or area, lut, ff, dsp, block_ram (% of "
            "the device), such as latency=1.5; may be repeated.",
        ),
    ] = None,
    budget: Annotated[
        float | None, typer.Option(metavar="MINUTES", help="Time to search, of all runs.")
    ] = None,
    evaluations: Annotated[
        int | None, typer.Option(help="Variants to compile instead of a time.")
    ] = None,
    base: Annotated[
        str,
        typer.Option(
            metavar="VARIANT|FILE",
            autocompletion=shipped_variants,
            help="Variant from which the results take all parameters that are not searched.",
        ),
    ] = "ecp5",
    clock: Annotated[
        float | None, typer.Option(metavar="MHZ", help="Clock of every variant; else estimated.")
    ] = None,
    memory: Annotated[str | None, MEMORY] = None,
    host_rates: HostRatesOf = MEASURED,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the search.")] = 0,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes that compile; 2 without --pool.")
    ] = None,
    pool: PoolAddress = None,
    tls: PoolCertificates = None,
    verify: Annotated[
        int,
        typer.Option(
            metavar="K", min=0, help="Simulate, synthesize and route this many points of the front."
        ),
    ] = 0,
    as_json: Json = False,
) -> None:
    """Search for the variants that are the fastest and smallest for MODELS, and compile for them.

    Estimates of cycles, area and clock choose which variants are compiled and counted; these make
    the Pareto front. The page index.html shows it from the first round on. Control-C writes the
    front so far; the same command continues, to the same result. With --verify, the exit status is
    1 if cycles of the RTL differ or a point does not fit the device.
    """
    from daedal.codesign.explore import explore, searched_device
    from daedal.codesign.results.verify import require_verification
    from daedal.reports.exploration import exploration_lines, exploration_table
    from daedal.reports.exploration_page import exploration_page, read_details
    from daedal.reports.verification import verification_lines, verification_table

    if verify:
        require_verification(searched_device(fpga, board)[0].family)
    page = output / "index.html"

    def show(found: "Exploration", verified: Sequence["Verified"] = ()) -> None:
        details = [read_details(point) for point in found.points]
        write_atomically(page, exploration_page(found, details, verified))

    with show_progress(make_console(stderr=True)) as report:
        found = explore(
            models,
            output,
            fpga=fpga,
            board=board,
            objectives=objective,
            limits=limit or (),
            minutes=budget,
            evaluations=evaluations,
            base=base,
            mhz=clock,
            memory=memory,
            host=host_rates,
            seed=seed,
            workers=workers,
            pool=pool,
            tls=tls,
            report=report,
            progress=show,
        )
        show(found)
        verified, stopped = _verified(found, 0 if found.interrupted else verify, report)
        if verified:
            show(found, verified)
    if as_json:
        print_json(
            {
                "front": [item.to_json() for item in found.front],
                "counted": found.counted,
                "refused": found.refused,
                "estimated": found.estimated,
                "verified": [item.to_json() for item in verified],
            }
        )
    else:
        console = make_console()
        print_tables(console, exploration_table(found))
        for line in exploration_lines(found, host_rates):
            console.print(escape(line))
        if verified:
            print_tables(console, verification_table(verified))
            for line in verification_lines(verified, found.board.name if found.board else None):
                console.print(escape(line))
    if found.interrupted or stopped:
        raise typer.Exit(_INTERRUPTED)
    if not all(item.cycles_are_equal and not item.problem for item in verified):
        raise typer.Exit(1)


def _verified(
    found: "Exploration", count: int, report: Callable[[str], None]
) -> tuple[list["Verified"], bool]:
    """What was verified, and whether that was interrupted."""
    verified: list[Verified] = []
    try:
        for item in found.verify(count, report=report):
            verified.append(item)
    except KeyboardInterrupt:
        return verified, True
    return verified, False
