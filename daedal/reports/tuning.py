"""What tuning found: a table of the layers, a few sentences, and plain data."""

from collections.abc import Iterator
from typing import Any

from rich.markup import escape
from rich.table import Table

from daedal.reports.tables import plain_table
from daedal.tuning.network import NetworkTuning, TaskResult

__all__ = ["changes_text", "percent_text", "tuning_json", "tuning_lines", "tuning_table"]


def tuning_table(tuning: NetworkTuning) -> Table:
    """A row for each kind of layer, those with the most cycles first, and their sum.

    "above": how far the best schedule is above the lower bound, which no schedule can beat; blank
    where no bound is known. "in network": cycles within the network, before and after, where they
    are exact.
    """
    bounded = any(item.bound_cycles is not None for item in tuning.results)
    heads = ["layer", "changed knobs", "times", "default", "tuned"]
    exact = not tuning.unit.noise  # a clock does not tell layers of a network apart
    heads += ["bound", "above"] * bounded + ["faster", *["in network", ""] * exact, "trials"]
    table = plain_table("Layers alone" + ", and within the network" * exact, heads, 2)
    results = sorted(tuning.results, key=lambda item: -item.count * item.default_cycles)
    for item in results:
        table.add_row(
            escape(item.layers[0]),
            changes_text(item) if item.is_used else "none: the default is kept",
            str(item.count),
            f"{item.default_cycles:,}",
            f"{item.best_cycles:,}",
            *([_cycles(item.bound_cycles), percent_text(item.excess)] if bounded else []),
            f"{item.default_cycles / item.best_cycles:.3f}x",
            *[_cycles(cycles) for cycles in item.network_cycles or (None, None)] * exact,
            str(item.trials),
        )
    before, after, bound = _totals(tuning)
    table.add_section()
    table.add_row(
        "all",
        "",
        str(sum(item.count for item in results)),
        f"{before:,}",
        f"{after:,}",
        *([_cycles(bound), percent_text(after / bound - 1 if bound else None)] if bounded else []),
        f"{before / after:.3f}x" if after else "",
        *["", ""] * exact,
        str(tuning.trials),
    )
    return table


def changes_text(item: TaskResult) -> str:
    """``height 4 -> 2, tap_rows 3 -> 2``"""
    found = [f"{knob} {old} -> {new}" for knob, (old, new) in item.changes.items()]
    return ", ".join(found) or "none"


def percent_text(share: float | None) -> str:
    """``12.5 %``; nothing for None."""
    return "" if share is None else f"{100 * share:.1f} %"


def tuning_lines(tuning: NetworkTuning, records: str) -> Iterator[str]:
    """The totals, and what to do with them."""
    before, after, bound = _totals(tuning)
    unit = tuning.unit.name
    possible = (
        f", at most {percent_text(after / bound - 1)} above what is possible" if bound else ""
    )
    yield (
        f"layers alone: {before:,} {unit} by default, {after:,} tuned "
        f"({before / max(after, 1):.3f}x){possible}"
    )
    selection = tuning.selection
    if selection is None:
        yield f"interrupted: {records} has what was measured; the same command continues"
        return
    old, new = selection.before.total, selection.after.total
    yield f"total: {old:,} {unit} by default, {new:,} tuned ({old / new:.3f}x), counted as a whole"
    kept = [item.layers[0] for item in tuning.results if not item.is_used]
    if not selection.configs and kept:
        yield (
            f"the network is not faster with the tuned schedules ({selection.tuned.total:,} "
            f"{unit}), so all layers keep their defaults"
        )
    elif kept:
        yield f"the network is faster if these keep their defaults: {', '.join(kept)}"
    yield f"`daedal compile --records {records}` compiles with these schedules"


def tuning_json(tuning: NetworkTuning) -> dict[str, Any]:
    """Plain data: the totals, and every kind of layer."""
    before, after, bound = _totals(tuning)
    selection = tuning.selection
    return {
        "default_cycles": before,
        "tuned_cycles": after,
        "bound_cycles": bound,
        "trials": tuning.trials,
        "unit": tuning.unit.name,
        "interrupted": selection is None,
        "network": None
        if selection is None
        else {"default_cycles": selection.before.total, "tuned_cycles": selection.after.total},
        "layers": [
            {
                "layer": item.layers[0],
                "layers": list(item.layers),
                "count": item.count,
                "workload": item.workload.description,
                "key": item.workload.key,
                "default_cycles": item.default_cycles,
                "tuned_cycles": item.best_cycles,
                "bound_cycles": item.bound_cycles,
                "network_cycles": item.network_cycles,
                "trials": item.trials,
                "default": item.default.to_json(),
                "config": item.config.to_json(),
                "is_used": item.is_used,
                "history": list(item.history),
            }
            for item in tuning.results
        ],
    }


def _totals(tuning: NetworkTuning) -> tuple[int, int, int | None]:
    """Cycles of all layers by default, tuned, and at least."""
    before = sum(item.count * item.default_cycles for item in tuning.results)
    after = sum(item.count * item.best_cycles for item in tuning.results)
    bounds = [item.bound_cycles for item in tuning.results]
    if None in bounds:
        return before, after, None
    return before, after, sum(item.count * (item.bound_cycles or 0) for item in tuning.results)


def _cycles(cycles: int | None) -> str:
    return "" if cycles is None else f"{cycles:,}"
