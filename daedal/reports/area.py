"""The area that `daedal synth` prints and reports: resources, and hard blocks by unit."""

from typing import Any

from rich.table import Table

from daedal.hw.synth.cache import yosys_version
from daedal.hw.synth.families import DEVICES, CellReport
from daedal.hw.synth.shortfall import shortfalls
from daedal.isa.variant import Variant
from daedal.reports.tables import plain_table

__all__ = ["area_record", "area_table", "units_table"]

_RESOURCES = {"lut": "LUT", "ff": "FF", "dsp": "DSP", "block_ram": "block RAM"}


def area_table(variant: Variant, report: CellReport) -> Table:
    """Used, available and the share of it, a line per resource."""
    device = DEVICES[report.family]
    title = f"{variant.name} on {device.name}: an estimate by Yosys, neither placed nor routed"
    table = plain_table(title, ("resource", "used", "available", "%"), 1)
    for name, head in _RESOURCES.items():
        used, available = getattr(report, name), getattr(device, name)
        table.add_row(head, f"{used:,.10g}", f"{available:,}", f"{100 * used / available:.1f}")
    return table


def units_table(report: CellReport) -> Table:
    """Multipliers and block RAM of each unit that has any."""
    table = plain_table("Hard blocks by unit", ("unit", "DSP", "block RAM"), 1)
    for unit, (dsp, block_ram) in report.hard_blocks.items():
        table.add_row(unit, f"{dsp:,}", f"{block_ram:,.10g}")
    return table


def area_record(variant: Variant, target: str, report: CellReport) -> dict[str, Any]:
    """The same as JSON has it."""
    device = DEVICES[report.family]
    return {
        "variant": variant.name,
        "fingerprint": variant.fingerprint,
        "target": target,
        "device": device.name,
        "method": "estimate by Yosys, neither placed nor routed",
        "yosys": yosys_version(),
        "resources": {
            name: {
                "used": getattr(report, name),
                "available": getattr(device, name),
                "share": round(report.shares[name], 4),
            }
            for name in _RESOURCES
        },
        "units": {
            unit: {"dsp": dsp, "block_ram": block_ram}
            for unit, (dsp, block_ram) in report.hard_blocks.items()
        },
        "fits": report.fits(),
        "shortfalls": [item.sentence for item in shortfalls(variant, report)],
    }
