"""Why a schedule wins: sentences, tables with bars, and plain data."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rich.markup import escape
from rich.table import Table

from daedal.isa.registers import CycleClass
from daedal.reports.schedule_features import bound_text, cycles_title, feature_title
from daedal.reports.tables import plain_table
from daedal.runtime.bound import WAITS
from daedal.tuning.explanation import Contribution, Explanation, KnobChange, UnitChange

__all__ = [
    "explanation_json",
    "explanation_lines",
    "explanation_tables",
    "signed_percent",
]

_BAR = 24
_NAMED = 3
"""Items that a sentence names."""
_SHOWN = 8
"""Rows of a table."""
_NEGLIGIBLE = 0.0005
"""A share that is not told: it would be 0.0 %."""


def explanation_lines(item: Explanation) -> Iterator[str]:
    """Sentences: what was measured, what the model says, what the machine did."""
    before, after = item.cycles
    if not item.knobs:
        yield (
            f"{item.layer}: no schedule of {item.num_own} measured takes fewer than the default's "
            f"{before:,} cycles"
        )
        return
    changed = ", ".join(f"{knob.knob} {knob.before} -> {knob.after}" for knob in item.knobs)
    yield (
        f"{item.layer} takes {after:,} cycles instead of {before:,} ({signed_percent(item.change)})"
        f" with {changed}"
    )
    yield from _knob_lines(item)
    yield (
        f"a model of {item.num_own} schedules of this layer and {item.num_others} of others "
        f"predicts {signed_percent(item.predicted)}; for schedules that it has not seen, it is off "
        f"by {100 * item.error:.1f} % (median)"
    )
    named = [_feature_text(part) for part in item.contributions[:_NAMED]]
    if named:
        yield f"the model attributes this to: {'; '.join(named)}"
    if abs(item.rest) >= _NEGLIGIBLE:
        yield (
            f"it attributes {signed_percent(item.rest)} to features that are the same in both "
            "schedules: what they cost depends on those that changed"
        )
    moved = [_unit_text(change) for change in _waits(item.units)[:_NAMED]]
    if moved:
        yield f"with the best schedule, {'; '.join(moved)}"
    old, new = map(bound_text, item.bounds)
    if old == new:
        yield f"the layer is limited by {old}, with both schedules"
    else:
        yield f"the layer is limited by {old} by default, and by {new} with the best schedule"


def _knob_lines(item: Explanation) -> Iterator[str]:
    if len(item.knobs) < 2:
        return
    for knob in item.knobs[:_NAMED]:
        if knob.cycles_without is None:
            yield f"{knob.knob} cannot be set back alone: the space has no such schedule"
        else:
            more = knob.cycles_without / item.cycles[1] - 1
            yield (
                f"with {knob.knob} set back alone, it takes {knob.cycles_without:,} "
                f"({signed_percent(more)})"
            )


def explanation_tables(item: Explanation) -> list[Table]:
    """The knobs and features that changed, and what the units did."""
    if not item.knobs:
        return []
    heads = ("knob", "meaning", "default", "best", "with the default's value")
    knobs = plain_table("Knobs that changed", heads, 2)
    for knob in item.knobs:
        values = str(knob.before), str(knob.after), _without(knob)
        knobs.add_row(escape(knob.knob), escape(feature_title(knob.knob)), *values)
    return [knobs, _features_table(item.contributions[:_SHOWN]), _units_table(item)]


def _features_table(parts: Sequence[Contribution]) -> Table:
    """A row with a bar for each feature that differs."""
    heads = ("feature", "", "default", "best", "effect on cycles")
    table = plain_table("Features that changed", heads, 2)
    most = max((abs(part.effect) for part in parts), default=0) or 1
    for part in parts:
        bar = ("-" if part.effect < 0 else "+") * round(_BAR * abs(part.effect) / most)
        values = f"{part.before:,.10g}", f"{part.after:,.10g}"
        title = escape(feature_title(part.feature))
        table.add_row(title, bar, *values, signed_percent(part.effect))
    return table


def _units_table(item: Explanation) -> Table:
    """What the units' cycles and work were."""
    table = plain_table("Cycles and work of the units", ("", "default", "best", "change"), 1)
    for change in item.units[:_SHOWN]:
        table.add_row(
            cycles_title(change.unit, change.kind),
            f"{change.before:,}",
            f"{change.after:,}",
            f"{change.after - change.before:+,}",
        )
    table.add_section()
    for name, old, new in item.work:
        if old != new:
            table.add_row(name, f"{old:,}", f"{new:,}", f"{new - old:+,}")
    same = [f"{old:,} {name}" for name, old, new in item.work if old == new]
    table.caption = f"the same in both: {', '.join(same)}" if same else None
    return table


def explanation_json(item: Explanation) -> dict[str, Any]:
    """Plain data."""
    return {
        "layer": item.layer,
        "default": item.default.to_json(),
        "best": item.best.to_json(),
        "cycles": list(item.cycles),
        "knobs": [asdict(knob) for knob in item.knobs],
        "contributions": [asdict(part) for part in item.contributions],
        "rest": item.rest,
        "predicted": item.predicted,
        "error": item.error,
        "schedules": {"own": item.num_own, "others": item.num_others},
        "units": [
            {
                "unit": change.unit.name.lower(),
                "class": change.kind.name.lower(),
                "cycles": [change.before, change.after],
            }
            for change in item.units
        ],
        "bound_by": [bound.value for bound in item.bounds],
        "work": {name: [old, new] for name, old, new in item.work},
    }


def signed_percent(share: float) -> str:
    """``−12.0 %``"""
    return f"{100 * share:+.1f} %".replace("-", "−")


def _without(knob: KnobChange) -> str:
    return "impossible" if knob.cycles_without is None else f"{knob.cycles_without:,} cycles"


def _feature_text(part: Contribution) -> str:
    return (
        f"{feature_title(part.feature)}, {part.before:,.10g} -> {part.after:,.10g} "
        f"({signed_percent(part.effect)})"
    )


def _waits(changes: Sequence[UnitChange]) -> list[UnitChange]:
    """Those of cycles in which a unit did no work."""
    return [change for change in changes if change.kind is not CycleClass.BUSY]


def _unit_text(change: UnitChange) -> str:
    cycles = change.after - change.before
    fewer = f"{abs(cycles):,} {'fewer' if cycles < 0 else 'more'} cycles"
    if change.kind in WAITS:
        return f"{change.unit.name} waits {fewer} for {WAITS[change.kind].name}"
    if change.kind is CycleClass.IDLE:
        return f"{change.unit.name} has no instruction in {fewer}"
    return f"{change.unit.name} waits {fewer} for bus, memory or a scratchpad"
