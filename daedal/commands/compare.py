"""``daedal compare``: variants side by side on the same networks."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from daedal.commands.options import MEASURED, VARIANTS, HostRatesOf, Json, MemoryName
from daedal.hw.synth.families import Target
from daedal.isa.variant import shipped_variants
from daedal.reports.console import make_console, print_json, print_tables, show_progress

__all__ = ["compare_command"]


def compare_command(
    variants: Annotated[
        list[str],
        typer.Argument(help=f"The machines: {VARIANTS}.", autocompletion=shipped_variants),
    ],
    model: Annotated[list[Path], typer.Option("--model", "-m", help="int8 QDQ ONNX models.")],
    fpga: Annotated[Target, typer.Option(help="The FPGA.")] = Target.ecp5_85f,
    memory: MemoryName = "ddr",
    host_rates: HostRatesOf = MEASURED,
    route: Annotated[
        bool, typer.Option("--route", help="Also synthesize and route each variant, with one seed.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Compare VARIANTS: cycles, area, clock, images per second, and what bounds each.

    The cycle model counts cycles. Area and clock are estimates, the clock with its interval. Images
    per second include the host's time, by --host-rates.
    --route adds clocks of place and route, which takes minutes for each variant the first time.
    Results are kept in the cache, so the same command continues after an interruption.
    """
    from daedal.codesign.compare import compare
    from daedal.reports.comparison import comparison_json, comparison_lines, comparison_tables

    with show_progress(make_console(stderr=True)) as report:
        found = compare(
            variants,
            model,
            fpga=fpga,
            memory=memory,
            host=host_rates,
            route=route,
            report=report,
        )
    if as_json:
        print_json(comparison_json(found))
        return
    console = make_console()
    for table in comparison_tables(found):
        print_tables(console, table)
    for line in comparison_lines(found, host_rates):
        console.print(escape(line))
