"""``daedal synth``: what a variant takes of an FPGA, and how fast it is there."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from daedal.commands.options import Json, VariantArgument, check_outputs
from daedal.common.files import write_atomically
from daedal.hw.synth.families import Target
from daedal.isa.variant import load_variant
from daedal.reports.console import make_console, print_json, show_progress

__all__ = ["synth_command"]


class Multipliers(StrEnum):
    """Styles of the array's multipliers."""

    dsp = "dsp"
    packed = "packed"
    lut = "lut"


def synth_command(
    variant: VariantArgument,
    fpga: Annotated[Target, typer.Option(help="The FPGA.")],
    freq: Annotated[
        float | None, typer.Option(metavar="MHZ", help="Clock that must be reached.")
    ] = None,
    seeds: Annotated[
        int,
        typer.Option(
            min=1, max=99, help="Number of seeds to place and route; the best is reported."
        ),
    ] = 1,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Seeds in parallel; by default one per processor.")
    ] = None,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Only estimate the area: no place and route.")
    ] = False,
    multipliers: Annotated[
        Multipliers | None,
        typer.Option(help="Style of the multipliers, instead of the variant's own."),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page with the whole report.")] = None,
    as_json: Json = False,
) -> None:
    """Synthesize VARIANT for an FPGA: resources by unit, and on ecp5-85f the clock and worst paths.

    Yosys maps it to cells; on ecp5-85f nextpnr places and routes it out of context, as package
    CABGA381 in speed grade 6. Takes minutes the first time; results are kept in the cache, each
    seed as soon as it is done. The exit status is 1 if the variant does not fit or misses the
    clock.
    """
    from daedal.reports.synthesis import print_synthesis, synthesis_record
    from daedal.reports.synthesis_page import synthesis_page
    from daedal.synthesis import synth

    check_outputs(html)
    chosen = load_variant(variant)
    if multipliers is not None:
        chosen = chosen.replace(None, multiplier_style=multipliers.value)
    err = make_console(stderr=True)
    with show_progress(err) as report:
        result = synth(
            chosen, fpga, mhz=freq, seeds=seeds, jobs=jobs, estimate=estimate, report=report
        )
    if as_json:
        print_json(synthesis_record(result, fpga.value))
    else:
        print_synthesis(make_console(), result)
    if html is not None:
        write_atomically(html, synthesis_page(result, fpga.value))
        err.print(f"wrote {escape(str(html))}")
    if not result.succeeded:
        raise typer.Exit(1)
