"""The calls of compiled code on a processor: a table, and plain data."""

from typing import Any

from rich.markup import escape
from rich.table import Table

from daedal.profiling.host import CallProfile, HostProfile
from daedal.reports.tables import plain_table, shown_names

__all__ = ["calls_json", "calls_note", "calls_table"]


def calls_json(profile: HostProfile) -> dict[str, Any]:
    """Everything that is known of each call; times in seconds."""
    return {
        "level": profile.level,
        "threads": 1,
        "seconds": profile.seconds,
        "calls": [
            {
                "part": item.part,
                "names": list(item.names),
                "operators": list(item.operators),
                "compiled": item.compiled,
                "bytes_moved": item.bytes_moved,
                "products": item.products,
                "seconds": item.seconds,
            }
            for item in profile.calls
        ],
    }


def calls_table(profile: HostProfile) -> Table:
    """A row for each call, in the order of the run."""
    heads = ("part", "computes", "operators", "moved", "MACs", "time", "share", "GB/s", "GMAC/s")
    title = f"Calls on {profile.level}, by one thread: {1e3 * profile.seconds:,.3f} ms"
    table = plain_table(title, heads, 3)
    for item in profile.calls:
        table.add_row(
            f"{item.part}",
            escape(shown_names(item.names)),
            ", ".join(item.operators),
            f"{item.bytes_moved:,} B" if item.compiled else "interpreted",
            f"{item.products:,}" if item.products else "",
            f"{1e6 * item.seconds:,.1f} us",
            f"{_percent(item, profile):.1f} %",
            _rate(item.bytes_moved, item.seconds),
            _rate(item.products, item.seconds),
        )
    return table


def calls_note(profile: HostProfile) -> str:
    """What the columns mean."""
    note = "moved: whole operands and results; time: the shortest of some runs"
    if any(not item.compiled for item in profile.calls):
        note += "; interpreted: a node that has no compiled code (`daedal inspect` says why)"
    return note


def _percent(item: CallProfile, profile: HostProfile) -> float:
    return 100 * item.seconds / profile.seconds if profile.seconds else 0.0


def _rate(count: int, seconds: float) -> str:
    """In billions a second."""
    return f"{1e-9 * count / seconds:,.1f}" if count and seconds else ""
