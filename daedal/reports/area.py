"""The area that `daedal synth` prints: resources of the whole, and of each unit."""

from rich.table import Table

from daedal.hw.synth.families import DEVICES, RESOURCES, Family
from daedal.hw.synth.flow import Implementation
from daedal.reports.tables import plain_table

__all__ = ["area_table", "device_of", "method_of", "units_table"]


def method_of(result: Implementation) -> str:
    """How the numbers were obtained."""
    if result.best is None:
        return "an estimate by Yosys, neither placed nor routed"
    request = result.best.request
    how = "out of context" if request.pins is None else "with all of its board"
    return f"placed and routed {how}, {request.package}, speed grade {request.speed_grade}"


def device_of(result: Implementation) -> str:
    """The device: as routed, or the one whose resources count."""
    if result.best is None or result.report.family is not Family.ECP5:
        return DEVICES[result.report.family].name
    return result.best.request.device


def area_table(result: Implementation) -> Table:
    """Used, available and share, one line per resource."""
    title = f"{result.variant.name} on {device_of(result)}: {method_of(result)}"
    table = plain_table(title, ("resource", "used", "available", "%"), 1)
    for name, head in RESOURCES.items():
        used, available = result.used[name], result.available[name]
        table.add_row(head, f"{used:,.10g}", f"{available:,}", f"{100 * used / available:.1f}")
    return table


def units_table(result: Implementation) -> Table:
    """Resources of each unit, as mapped, most look-up tables first."""
    table = plain_table("Units, as mapped", ("unit", *RESOURCES.values(), "% of LUT"), 1)
    units = sorted(result.report.unit_resources.items(), key=lambda item: -item[1]["lut"])
    for unit, used in units:
        share = 100 * used["lut"] / max(1, result.report.lut)
        table.add_row(unit, *(f"{used[name]:,.10g}" for name in RESOURCES), f"{share:.1f}")
    return table
