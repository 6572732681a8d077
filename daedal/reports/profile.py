"""Tables of profiles and of what moved between two; the data is the same as with --json."""

from collections.abc import Mapping

from rich.markup import escape
from rich.table import Table

from daedal.isa.profile import UnitCounters
from daedal.isa.registers import CLASSES
from daedal.isa.table import Unit
from daedal.reports.tables import padding_note, plain_table
from daedal.runtime.layers import LayerProfile
from daedal.runtime.profiler.diff import LayerChange, ProfileDiff
from daedal.runtime.profiler.network_profile import NetworkProfile
from daedal.runtime.profiler.svg import clip_text

__all__ = ["conditions_text", "diff_table", "layers_table", "units_table"]

_NUM_MOVES = 2
_NAME_LENGTH = 28


def layers_table(profile: NetworkProfile) -> Table:
    """A row per layer, and the whole.

    "held up by": the unit at the end of the chain of those who wait for each other; "ideal":
    multiplications at the full rate of the layer's mode; "roofline": the longer of that and the
    bytes over the bus, each once and without those that stay on chip; "of roof": the share of the
    layer's cycles that this is; "of peak": the share of the multiplications that the array can do.
    Products with padding are in none of them; the caption tells how many they are.
    """
    heads = ("layer", "bound", "held up by", "cycles", "ideal", "roofline", "of roof", "of peak")
    table = plain_table(escape(title(profile)), (*heads, "moved", "once", "MACs/B"), 3)
    for item in profile.layers:
        table.add_row(
            escape(clip_text(item.layer.name, _NAME_LENGTH)),
            item.bound.value,
            item.wait_chain[-1].name,
            f"{item.cycles:,}",
            _cycles(item.ideal_cycles),
            _cycles(item.roofline_cycles),
            _share(item.roofline_share, 1),
            _share(item.share, 1),
            f"{item.bytes_moved:,} B",
            f"{item.layer.bytes_once:,} B",
            f"{item.reuse:.1f}",
        )
    table.add_section()
    ideal = sum(item.ideal_cycles for item in profile.layers)
    moved = sum(item.bytes_moved for item in profile.layers)
    table.add_row(
        "all",
        "",
        "",
        f"{profile.cycles:,}",
        _cycles(ideal),
        _cycles(profile.roofline_cycles),
        _share(profile.roofline_share, 1),
        _share(profile.share, 1),
        f"{moved:,} B",
        f"{sum(item.layer.bytes_once for item in profile.layers):,} B",
        f"{(profile.macs - profile.padding_macs) / max(1, moved):.1f}",
    )
    note = padding_note(profile.macs, profile.padding_macs)
    table.caption = f"ideal, of peak, MACs/B: {note}" if note else None
    return table


def title(profile: NetworkProfile) -> str:
    """What was measured, in one line."""
    machine = profile.conditions
    name = f"{profile.name}: " if profile.name else ""
    return (
        f"{name}variant {machine.variant} ({machine.fingerprint}), memory {machine.memory}, "
        f"device {machine.device}"
    )


def units_table(heading: str, units: Mapping[Unit, UnitCounters]) -> Table:
    """Cycles of each unit by class in percent of that unit's own cycles: a row sums to 100 %."""
    kinds = [kind.name.lower().replace("_", " ") for kind in CLASSES]
    table = plain_table(escape(heading), ("unit", *kinds, "cycles", "work"), 1)
    for unit, counters in units.items():
        whole = counters.cycles
        shares = [_share(counters.classes[kind], whole) for kind in CLASSES]
        table.add_row(unit.name, *shares, f"{whole:,}", f"{counters.work:,}")
    return table


def diff_table(diff: ProfileDiff) -> Table:
    """A row per layer, the largest change first, with the classes that changed most."""
    heads = ("layer", "bound", "moved most", "before", "after", "change", "bytes before", "after")
    table = plain_table("What moved", heads, 3)
    for change in diff.changes:
        moves = ", ".join(
            f"{move.unit.name} {move.kind.name.lower().replace('_', ' ')} {move.cycles:+,}"
            for move in change.moves[:_NUM_MOVES]
        )
        table.add_row(
            escape(clip_text(change.name, _NAME_LENGTH)),
            change.bound,
            moves,
            *_sides(change, "cycles"),
            _change(change.cycles),
            *_sides(change, "bytes_moved"),
        )
    table.add_section()
    old, new = diff.before.cycles, diff.after.cycles
    table.add_row("all", "", "", f"{old:,}", f"{new:,}", _change(new - old))
    return table


def conditions_text(diff: ProfileDiff) -> str:
    """A line for each condition that differs."""
    lines = [
        f"{name.replace('_', ' ')}: {old} -> {new}\n"
        for name, (old, new) in diff.conditions.items()
    ]
    return "".join(lines)


def _sides(change: LayerChange, what: str) -> list[str]:
    sides: list[LayerProfile | None] = [change.before, change.after]
    return [f"{getattr(side, what):,}" if side is not None else "none" for side in sides]


def _change(value: int) -> str:
    return f"{value:+,}" if value else "0"


def _cycles(value: float) -> str:
    return f"{value:,.0f}"


def _share(part: float, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else ""
