"""Why a schedule wins: sentences, tables with bars, and plain data."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rich.markup import escape
from rich.table import Table

from daedal.isa.registers import CycleClass
from daedal.reports.tables import plain_table
from daedal.runtime.profiler.legend import kind_title
from daedal.tuning.explanation import Contribution, Explanation, KnobChange, UnitChange

__all__ = [
    "explanation_json",
    "explanation_lines",
    "explanation_tables",
    "feature_title",
    "signed_percent",
]

_BAR = 24
_NAMED = 3
"""Items that a sentence names."""
_SHOWN = 8
"""Rows of a table."""
_TITLES = {
    "": "all others, which do not differ",
    "product_cycles": "cycles of the multipliers",
    "vector_cycles": "cycles of the ALU",
    "beats": "words over the bus",
    "steps": "steps of the reduction",
    "tile_products": "products of a step",
    "accumulators": "accumulators of a tile",
    "input_rows": "input rows of a step",
    "weight_rows": "weight rows of a step",
    "group": "output blocks whose weights stay",
}
"""Features whose names are no words; knobs and others are shown as they are."""


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
    named = [_feature_text(part) for part in item.contributions[:_NAMED] if part.feature]
    yield f"it holds these responsible: {'; '.join(named)}"
    moved = [_unit_text(change) for change in _waits(item.units)[:_NAMED]]
    if moved:
        yield f"in the machine, {'; '.join(moved)}"
    old, new = (bound.value for bound in item.bounds)
    yield f"bound by {old}, before and after" if old == new else f"bound by {old}, then by {new}"


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
    """The knobs, the features with bars, and the cycles of the units."""
    if not item.knobs:
        return []
    knobs = plain_table("Knobs that changed", ("knob", "default", "best", "set back alone"), 1)
    for knob in item.knobs:
        knobs.add_row(escape(knob.knob), str(knob.before), str(knob.after), _without(knob))
    heads = ("feature", "", "default", "best", "cycles")
    features = plain_table("What the model holds responsible", heads, 2)
    most = max(abs(part.effect) for part in item.contributions) or 1
    for part in [*item.contributions[:-1][:_SHOWN], item.contributions[-1]]:
        bar = ("-" if part.effect < 0 else "+") * round(_BAR * abs(part.effect) / most)
        values = (f"{part.before:,.10g}", f"{part.after:,.10g}") if part.feature else ("", "")
        features.add_row(
            escape(feature_title(part.feature)), bar, *values, signed_percent(part.effect)
        )
    units = plain_table("What the units did", ("unit", "cycles", "default", "best", "change"), 2)
    for change in item.units[:_SHOWN]:
        units.add_row(
            change.unit.name,
            kind_title(change.kind),
            f"{change.before:,}",
            f"{change.after:,}",
            f"{change.after - change.before:+,}",
        )
    units.add_section()
    for name, old, new in item.work:
        units.add_row("", name, f"{old:,}", f"{new:,}", f"{new - old:+,}" if new != old else "")
    return [knobs, features, units]


def explanation_json(item: Explanation) -> dict[str, Any]:
    """Plain data."""
    return {
        "layer": item.layer,
        "default": item.default.to_json(),
        "best": item.best.to_json(),
        "cycles": list(item.cycles),
        "knobs": [asdict(knob) for knob in item.knobs],
        "contributions": [asdict(part) for part in item.contributions],
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


def feature_title(feature: str) -> str:
    """A feature in words."""
    return _TITLES.get(feature, feature.replace("_", " "))


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
    words = {CycleClass.IDLE: "is idle for", CycleClass.STALL: "is stalled for"}
    what = words.get(change.kind, "waits")
    fewer = f"{abs(cycles):,} {'fewer' if cycles < 0 else 'more'} cycles"
    whom = "" if change.kind in words else kind_title(change.kind).removeprefix("wait")
    return f"{change.unit.name} {what} {fewer}{whom}"
