"""``daedal synth``: what a variant takes of an FPGA."""

from enum import StrEnum
from typing import Annotated

import typer
from rich.markup import escape

from daedal.commands.options import Json
from daedal.isa.variant import load_variant
from daedal.reports.console import make_console, print_json, print_tables, show_progress

__all__ = ["synth_command"]


class Target(StrEnum):
    """Devices to synthesize for."""

    xc7z020 = "xc7z020"
    xczu3eg = "xczu3eg"
    ecp5_85f = "ecp5-85f"


def synth_command(
    variant: Annotated[str, typer.Argument(help="A shipped variant's name, or a .toml file.")],
    target: Annotated[Target, typer.Option(help="The device.")],
    as_json: Json = False,
) -> None:
    """Estimate what VARIANT takes of an FPGA, by Yosys: area alone, neither placed nor routed.

    Takes minutes the first time; answers are kept in .daedal/area. Exit status 1 where the variant
    does not fit: more LUTs or flip-flops than there are, or over 95 % of the DSP or block RAM.
    """
    from daedal.hw.synth.cache import AreaCache
    from daedal.hw.synth.families import TARGETS
    from daedal.hw.synth.shortfall import shortfalls
    from daedal.reports.area import area_record, area_table, units_table
    from daedal.sim.rtl.device import default_cache_dir
    from daedal.sim.rtl.verilog import kept_verilog

    chosen = load_variant(variant)
    with show_progress(make_console(stderr=True)) as progress:
        verilog = kept_verilog(chosen, default_cache_dir(), progress)
        cache = AreaCache(default_cache_dir().parent / "area")
        what = f"estimating the area of variant {chosen.name} on {target.value}"
        progress(what)
        report = cache.synthesize(
            verilog, TARGETS[target.value], progress=lambda step: progress(f"{what}: {step}")
        )
    if as_json:
        print_json(area_record(chosen, target.value, report))
    else:
        console = make_console()
        print_tables(console, area_table(chosen, report), units_table(report))
        for item in shortfalls(chosen, report):
            console.print(escape(f"does not fit: {item.sentence}"))
    if not report.fits():
        raise typer.Exit(1)
