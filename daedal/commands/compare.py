"""``daedal compare``: variants side by side on the same networks."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from daedal.commands.options import MEASURED, VARIANTS, HostRatesOf, Json, MemoryName
from daedal.common.errors import ExploreError
from daedal.hw.synth.families import Target
from daedal.isa.variant import shipped_variants
from daedal.reports.console import make_console, print_json, print_wide, show_progress

__all__ = ["compare_command"]


def compare_command(
    variants: Annotated[
        list[str],
        typer.Argument(help=f"The machines: {VARIANTS}.", autocompletion=shipped_variants),
    ],
    model: Annotated[list[Path], typer.Option("--model", "-m", help="int8 QDQ ONNX models.")],
    target: Annotated[Target, typer.Option(help="The device.")] = Target.ecp5_85f,
    memory: MemoryName = "ddr",
    host_rates: HostRatesOf = MEASURED,
    route: Annotated[
        bool, typer.Option("--route", help="Synthesize and route each, too, with one seed.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Compare VARIANTS: cycles, area, clock, images per second, and what bounds each.

    The cycle model counts cycles. Area and clock are estimates, the clock with its interval. Images
    per second include the host's time, by --host-rates.
    --route adds clocks of place and route, in minutes a variant the first time; answers are kept
    in the cache, so that the same command continues after an interruption.
    """
    from daedal.codesign.compare import compare, require_routing
    from daedal.codesign.compare import route as route_all
    from daedal.compiler.frontend.reader import read_model
    from daedal.host_rates import load_host_rates
    from daedal.isa.memory_file import load_memory
    from daedal.isa.variant import load_variant
    from daedal.reports.comparison import comparison_json, comparison_lines, comparison_tables

    chosen = [load_variant(name) for name in variants]
    behind = load_memory(memory)
    models = {path.stem: read_model(path).SerializeToString(deterministic=True) for path in model}
    if len(models) < len(model):
        raise ExploreError("networks need different file names, which name them in the table")
    if route:
        require_routing(target.family)
    with show_progress(make_console(stderr=True)) as report:
        rates = load_host_rates(host_rates)
        found = compare(chosen, models, target.family, memory=behind, rates=rates, report=report)
        if route:
            found = list(route_all(found, report=report))
    if as_json:
        print_json(comparison_json(found))
        return
    console = make_console()
    for table in comparison_tables(found):
        print_wide(console, table)
    for line in comparison_lines(found, host_rates):
        console.print(escape(line))
