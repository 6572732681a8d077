"""The speed that `daedal synth` prints: clocks and worst paths; and all of its report as JSON."""

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from daedal.hw.emit import TOP_MODULE
from daedal.hw.synth.cache import yosys_version
from daedal.hw.synth.families import RESOURCES
from daedal.hw.synth.flow import Implementation
from daedal.hw.synth.paths import TimingPath
from daedal.hw.synth.place import Routed
from daedal.hw.synth.tools import NEXTPNR
from daedal.reports.area import area_table, device_of, method_of, units_table
from daedal.reports.console import print_tables
from daedal.reports.tables import plain_table

__all__ = ["clocks_table", "paths_table", "print_synthesis", "synthesis_record"]

_MOST_PATHS = 12


def clocks_table(result: Implementation) -> Table:
    """Fmax of each clock, a column per seed."""
    asked = "" if result.asked_mhz is None else f"; asked: {result.asked_mhz:g}"
    seeds = [f"seed {routed.request.seed}" for routed in result.routes]
    table = plain_table(f"Fmax in MHz{asked}", ("clock", *seeds), 1)
    for clock in sorted({clock for routed in result.routes for clock in routed.fmax_mhz}):
        table.add_row(clock, *(f"{routed.fmax_mhz[clock]:.2f}" for routed in result.routes))
    return table


def paths_table(routed: Routed) -> Table:
    """The worst paths of a seed: modules that they pass, ends, and where the time goes."""
    title = f"Worst paths of seed {routed.request.seed}, in ns"
    heads = ("modules", "from", "to", "levels", "logic", "routing", "all")
    table = plain_table(title, heads, 3)
    for path in routed.paths[:_MOST_PATHS]:
        table.add_row(
            path.route,
            path.start,
            path.end,
            str(path.levels),
            *(f"{time:.2f}" for time in (path.logic_ns, path.routing_ns, path.delay_ns)),
        )
    return table


def print_synthesis(console: Console, result: Implementation) -> None:
    """Print the tables, and a sentence for each thing that is missed."""
    print_tables(console, area_table(result), units_table(result))
    if result.best is not None:
        print_tables(console, clocks_table(result), paths_table(result.best))
    for seed in result.given_up:
        console.print(f"given up: seed {seed}; the router needs much longer than for another")
    for item in result.shortfalls:
        console.print(escape(f"does not fit: {item.sentence}"))
    if result.missed is not None:
        console.print(escape(f"too slow: {result.missed}"))


def synthesis_record(result: Implementation, target: str) -> dict[str, Any]:
    """The whole report."""
    best = result.best
    return {
        "variant": result.variant.name,
        "fingerprint": result.variant.fingerprint,
        "multiplier_style": result.variant.array.style.value,
        "target": target,
        "device": device_of(result),
        "method": method_of(result),
        "yosys": yosys_version(),
        "nextpnr": NEXTPNR.version if best is not None else None,
        "resources": {
            name: {
                "used": result.used[name],
                "available": result.available[name],
                "share": round(result.used[name] / result.available[name], 4),
            }
            for name in RESOURCES
        },
        "units": result.report.unit_resources,
        "asked_mhz": result.asked_mhz,
        "fmax_mhz": None if best is None else best.fmax_mhz,
        "seeds": [
            {"seed": routed.request.seed, "fmax_mhz": routed.fmax_mhz} for routed in result.routes
        ],
        "given_up": list(result.given_up),
        "paths": [] if best is None else [_path_record(path) for path in best.paths],
        "fits": not result.shortfalls,
        "shortfalls": [item.sentence for item in result.shortfalls],
        "missed": result.missed,
    }


def _path_record(path: TimingPath) -> dict[str, Any]:
    return {
        "modules": [module or TOP_MODULE for module in path.modules],
        "start": path.start,
        "end": path.end,
        "clocks": [path.start_clock, path.end_clock],
        "levels": path.levels,
        "logic_ns": round(path.logic_ns, 3),
        "routing_ns": round(path.routing_ns, 3),
        "signals": list(path.signals),
    }
