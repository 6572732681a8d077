"""Text and table of verified points: predicted against measured."""

from collections.abc import Iterator, Sequence

from rich.table import Table

from daedal.codesign.results.verify import Verified
from daedal.hw.synth.families import RESOURCES
from daedal.reports.tables import plain_table

__all__ = ["verification_lines", "verification_rows", "verification_table"]

Row = tuple[str, str, str, str, str]


def verification_rows(verified: Sequence[Verified]) -> Iterator[Row]:
    """Variant, quantity, predicted, measured and difference."""
    for item in verified:
        for name, (counted, found) in item.cycles.items():
            difference = "equal" if counted == found else f"{found - counted:+,}"
            yield item.variant, f"{name} cycles", f"{counted:,}", f"{found:,}", difference
        for name, (composed, used) in item.resources.items():
            error = f"{100 * (used - composed) / composed:+.1f} %" if composed else ""
            yield item.variant, RESOURCES[name], f"{composed:,.0f}", f"{used:,.10g}", error
        clock = item.clock
        if item.mhz is None:
            yield item.variant, "MHz", f"{clock.mhz:.1f}", "", "not routed"
        elif clock.low == clock.high:  # it was asked for
            reached = "reached" if item.mhz >= clock.mhz else "missed"
            yield item.variant, "MHz", f"{clock.mhz:.1f} asked", f"{item.mhz:.1f}", reached
        else:
            predicted = f"{clock.mhz:.1f} ({clock.low:.1f} to {clock.high:.1f})"
            place = "inside" if item.clock_is_inside else "outside"
            yield item.variant, "MHz", predicted, f"{item.mhz:.1f}", place


def verification_table(verified: Sequence[Verified]) -> Table:
    """A row for each quantity of each point."""
    heads = ("variant", "quantity", "predicted", "measured", "difference")
    table = plain_table("Predicted against measured", heads, 2)
    before = ""
    for variant, *cells in verification_rows(verified):
        if before and variant != before:
            table.add_section()
        table.add_row(variant if variant != before else "", *cells)
        before = variant
    return table


def verification_lines(verified: Sequence[Verified], board: str | None = None) -> Iterator[str]:
    """How the measurements were made, and what is wrong; `board`: its name, where one was built."""
    how = "out of context" if board is None else f"with all of board {board}"
    yield f"cycles in the simulated RTL, resources by Yosys, the clock routed {how} with one seed"
    for item in verified:
        if not item.cycles_are_equal:
            yield f"{item.variant}: the cycle model must count the RTL's cycles, and does not"
        if item.problem:
            yield f"{item.variant} {item.problem}"
