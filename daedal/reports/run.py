"""Tables of a run: cycles per layer and per unit; the data is the same as with --json."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from rich.markup import escape
from rich.table import Table

from daedal.isa.registers import CycleClass
from daedal.isa.table import Unit
from daedal.reports.tables import padding_note, plain_table
from daedal.runtime.layers import LayerProfile

__all__ = ["layers_table", "profile_table", "repeats_text"]


def layers_table(layers: Sequence[LayerProfile]) -> Table:
    """Cycles per layer, and where the units spent them.

    "of peak" is the share of the multiplications that the array could do in the layer's cycles;
    products with padding are not in it, and the caption tells how many they are. The last three
    columns are the busy cycles of a unit as a share of its own cycles for the layer.
    """
    heads = ("layer", "op", "MACs", "cycles", "of peak", "read", "written", "GEMM", "ALU", "LOAD")
    table = plain_table("Layers", heads, num_left=2)
    for item in layers:
        busy = [
            f"{100 * own.classes[CycleClass.BUSY] / max(1, own.cycles):.0f} %"
            for own in (item.units[unit] for unit in (Unit.GEMM, Unit.ALU, Unit.LOAD))
        ]
        table.add_row(
            escape(item.layer.name),
            item.layer.op,
            f"{item.layer.macs:,}",
            f"{item.cycles:,}",
            f"{100 * item.share:.1f} %",
            f"{item.bytes_read:,} B",
            f"{item.bytes_written:,} B",
            *busy,
        )
    table.add_section()
    cycles = sum(item.cycles for item in layers)
    rate = sum(item.layer.needed_macs for item in layers) / max(1, cycles)
    share = rate / layers[0].macs_per_cycle if layers else 0.0
    table.add_row(
        "all",
        "",
        f"{sum(item.layer.macs for item in layers):,}",
        f"{cycles:,}",
        f"{100 * share:.1f} %",
        f"{sum(item.bytes_read for item in layers):,} B",
        f"{sum(item.bytes_written for item in layers):,} B",
    )
    macs, padding = (
        sum(getattr(item.layer, name) for item in layers) for name in ("macs", "padding_macs")
    )
    note = padding_note(macs, padding)
    table.caption = f"of peak: {note}" if note else None
    return table


def profile_table(profile: dict[str, Any]) -> Table:
    """Cycles of each unit by class, in percent of the run; `profile` is `Profile.to_json()`."""
    kinds = [kind.name.lower() for kind in CycleClass]
    heads = ("unit", *(kind.replace("_", " ") for kind in kinds), "work")
    table = plain_table(f"Units over {profile['cycles']:,} cycles", heads, num_left=1)
    for unit, counters in profile["units"].items():
        shares = [f"{100 * counters[kind] / max(1, profile['cycles']):.1f} %" for kind in kinds]
        table.add_row(unit.upper(), *shares, f"{counters['work']:,}")
    return table


def repeats_text(counts: Sequence[int | None]) -> str:
    """Numbers in order, those that follow each other and are equal as one: ``9, 8 (3 times)``."""
    found = []
    for count, same in groupby(counts):
        times = len(list(same))
        text = "unknown" if count is None else f"{count:,}"
        found.append(text if times == 1 else f"{text} ({times} times)")
    return ", ".join(found)
