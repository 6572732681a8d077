"""``daedal synth``: what a variant takes of an FPGA, and how fast it is there."""

import os
from enum import StrEnum
from typing import Annotated

import typer
from rich.markup import escape

from daedal.commands.options import Json
from daedal.hw.synth.families import Target
from daedal.isa.errors import UserError
from daedal.isa.variant import Variant, load_variant
from daedal.reports.console import make_console, print_json, print_tables, show_progress

__all__ = ["synth_command"]

_AIM_MHZ = 150.0
"""What the placer aims at where no clock is asked for: more than a machine reaches there."""


class Multipliers(StrEnum):
    """Styles of the array's multipliers."""

    dsp = "dsp"
    packed = "packed"
    lut = "lut"


def synth_command(
    variant: Annotated[str, typer.Argument(help="A shipped variant's name, or a .toml file.")],
    target: Annotated[Target, typer.Option(help="The device.")],
    freq: Annotated[
        float | None, typer.Option(metavar="MHZ", help="Clock that must be reached.")
    ] = None,
    seeds: Annotated[
        int, typer.Option(min=1, max=99, help="Place this often; report the best.")
    ] = 1,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Seeds at a time; as many as processors by default.")
    ] = None,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Area alone: neither place nor route.")
    ] = False,
    multipliers: Annotated[
        Multipliers | None, typer.Option(help="Style of the array's multipliers instead.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Synthesize VARIANT for an FPGA: resources by unit, and on ecp5-85f the clock and worst paths.

    Yosys maps it to cells; on ecp5-85f nextpnr places and routes it out of context, as package
    CABGA381 in speed grade 6. Takes minutes the first time; answers are kept in .daedal/synth, each
    seed as soon as it is done. Exit status 1 where the variant does not fit or misses the clock.
    """
    from daedal.hw.synth.flow import PLACED, implement
    from daedal.hw.synth.place import PlaceRequest
    from daedal.reports.area import area_table, units_table
    from daedal.reports.synthesis import clocks_table, paths_table, synthesis_record
    from daedal.sim.rtl.device import default_cache_dir
    from daedal.sim.rtl.verilog import kept_verilog

    routed = target.family in PLACED and not estimate
    if not routed and (freq is not None or seeds > 1):
        raise UserError(
            "a clock and seeds belong to place and route, which only ecp5-85f has, without "
            f"--estimate; leave --freq and --seeds out ({target.value})"
        )
    chosen = _with_multipliers(load_variant(variant), multipliers)
    requests = [
        PlaceRequest(target_mhz=_AIM_MHZ if freq is None else freq, seed=seed)
        for seed in range(1, seeds + 1 if routed else 1)
    ]
    with show_progress(make_console(stderr=True)) as progress:
        verilog = kept_verilog(chosen, default_cache_dir(), progress)
        what = (
            f"{'synthesizing' if routed else 'estimating'} variant {chosen.name} on {target.value}"
        )
        progress(what)
        result = implement(
            chosen,
            verilog,
            target.family,
            default_cache_dir().parent / "synth",
            requests=requests,
            asked_mhz=freq,
            num_processes=jobs or os.cpu_count() or 1,
            progress=lambda step: progress(f"{what}: {step}"),
        )
    if as_json:
        print_json(synthesis_record(result, target.value))
    else:
        console = make_console()
        print_tables(console, area_table(result), units_table(result))
        if result.best is not None:
            print_tables(console, clocks_table(result), paths_table(result.best))
        for item in result.shortfalls:
            console.print(escape(f"does not fit: {item.sentence}"))
        if result.missed is not None:
            console.print(escape(f"too slow: {result.missed}"))
    if not result.succeeded:
        raise typer.Exit(1)


def _with_multipliers(variant: Variant, style: Multipliers | None) -> Variant:
    return variant if style is None else variant.replace(None, multiplier_style=style.value)
