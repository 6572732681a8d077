"""Drawings of a tuning run: the best schedule so far of each layer, and why the best one wins.

Input: results of `daedal.tuning`. Output: a `Drawing` each.
"""

from collections.abc import Sequence

from daedal.reports.explanation import signed_percent
from daedal.reports.schedule_features import cycles_title, feature_title
from daedal.runtime.profiler.svg import Drawing, clip_text
from daedal.tuning.explanation import Contribution, UnitChange
from daedal.tuning.network import TaskResult

__all__ = ["contributions_chart", "curve_chart", "units_change_chart"]

_WIDTH, _HEIGHT = 960.0, 220.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 20.0, 810.0, 12.0, 194.0
_HIGHEST = 1.3
"""Of the default's cycles: what is above is drawn at the upper edge."""
_LABEL_STEP = 15.0
_ROW, _BAR, _NAMES, _VALUES = 22.0, 14.0, 370.0, 170.0
_NAME_LENGTH = 56


class _Axes:
    """Places of schedules and cycles in a curve."""

    def __init__(self, item: TaskResult) -> None:
        found = [cycles for cycles in item.history if cycles is not None]
        self._lowest = min(item.best_cycles, item.bound_cycles or item.best_cycles)
        highest = min(max(found), round(_HIGHEST * item.default_cycles))
        self._highest = max(item.default_cycles, highest)
        self._margin = 0.05 * (self._highest - self._lowest) or 1
        self._step = (_RIGHT - _LEFT) / max(len(item.history), 2)

    def x(self, number: int) -> float:
        """Of the schedule `number`, from 0."""
        return _LEFT + (number + 0.5) * self._step

    def y(self, cycles: int) -> float:
        """Of cycles; the upper edge for those that are too many."""
        span = self._highest - self._lowest + 2 * self._margin
        share = (self._highest + self._margin - min(cycles, self._highest)) / span
        return _TOP + share * (_BOTTOM - _TOP)


def curve_chart(item: TaskResult) -> Drawing:
    """Cycles of each measured schedule in order, and the fewest so far, with default and bound."""
    drawing, axes = Drawing(_WIDTH, _HEIGHT, f"Measured schedules of {item.layers[0]}"), _Axes(item)
    drawing.add("path", kind="grid", d=f"M{_LEFT:.1f} {_TOP:.1f}V{_BOTTOM:.1f}H{_RIGHT:.1f}")
    text = f"measured schedules, 1 to {len(item.history)}"
    drawing.add("text", kind="soft", x=_LEFT, y=_HEIGHT - 8, text=text)
    _draw_lines(drawing, axes, item)
    points: list[tuple[int, int, str]] = []  # number, cycles and CSS class
    best = max(cycles for cycles in item.history if cycles is not None) + 1
    path = ""
    for number, cycles in enumerate(item.history):
        x = axes.x(number)
        if cycles is None:  # it could not be built
            drawing.add("text", kind="soft middle", x=x, y=_BOTTOM - 2, text="×")
            continue
        points.append((number, cycles, "point" if cycles < best else "once"))
        if cycles < best:
            path += f"{'H' if path else 'M'}{x:.1f}{'V' if path else ' '}{axes.y(cycles):.1f}"
            best = cycles
    drawing.add("path", kind="roof", d=f"{path}H{_RIGHT:.1f}")
    for number, cycles, kind in points:
        hint = f"schedule {number + 1}: {cycles:,} cycles"
        drawing.add("circle", kind=kind, cx=axes.x(number), cy=axes.y(cycles), r=3.5, hint=hint)
    return drawing


def _draw_lines(drawing: Drawing, axes: _Axes, item: TaskResult) -> None:
    """Default and bound as dashed lines; these and the best with their cycles at the right."""
    lines = [("default", item.default_cycles), ("best", item.best_cycles)]
    if item.bound_cycles is not None:
        lines.append(("bound", item.bound_cycles))
    below = 0.0
    for name, cycles in sorted(lines, key=lambda line: -line[1]):
        y = axes.y(cycles)
        if name != "best":
            drawing.add("line", kind="reuse", x1=_LEFT, x2=_RIGHT, y1=y, y2=y)
        below = max(y + 4, below + _LABEL_STEP)
        drawing.add("text", x=_RIGHT + 8, y=below, text=f"{name} {cycles:,}")


def contributions_chart(parts: Sequence[Contribution]) -> Drawing:
    """A bar per feature: to the left, and blue, for fewer cycles; to the right for more."""
    drawing = Drawing(_WIDTH, _ROW * len(parts) + 4, "Contributions of the features")
    most = max((abs(part.effect) for part in parts), default=0) or 1
    least = min((part.effect for part in parts), default=0)
    highest = max((part.effect for part in parts), default=0)
    room = _WIDTH - _NAMES - _VALUES
    span = (max(highest, 0) - min(least, 0)) or most
    zero = _NAMES + room * max(-least, 0) / span
    for row, part in enumerate(parts):
        y = row * _ROW + 2
        name = feature_title(part.feature)
        drawing.add("text", x=0, y=y + 11, text=clip_text(name, _NAME_LENGTH))
        width = room * abs(part.effect) / span
        kind, x = ("least", zero - width) if part.effect < 0 else ("stall", zero)
        text = f"{part.before:,.10g} to {part.after:,.10g}: {signed_percent(part.effect)}"
        drawing.add("rect", kind=kind, x=x, y=y, width=width, height=_BAR, hint=f"{name}: {text}")
        drawing.add("text", x=_WIDTH - _VALUES + 8, y=y + 11, text=text)
    return drawing


def units_change_chart(changes: Sequence[UnitChange]) -> Drawing:
    """Two bars per unit and class: cycles by default, and in the best schedule."""
    drawing = Drawing(
        _WIDTH, _ROW * 1.5 * len(changes) + 4, "Cycles of the units, before and after"
    )
    most = max((max(item.before, item.after) for item in changes), default=0) or 1
    room = _WIDTH - _NAMES - _VALUES
    for row, item in enumerate(changes):
        y = row * _ROW * 1.5 + 2
        name = cycles_title(item.unit, item.kind)
        drawing.add("text", x=0, y=y + 17, text=name)
        for number, (when, cycles) in enumerate((("default", item.before), ("best", item.after))):
            width, hint = room * cycles / most, f"{name}, {when}: {cycles:,} cycles"
            kind, top = item.kind.name.lower(), y + 13 * number
            drawing.add("rect", kind=kind, x=_NAMES, y=top, width=width, height=11, hint=hint)
        text = f"{item.before:,} to {item.after:,} ({item.after - item.before:+,})"
        drawing.add("text", x=_WIDTH - _VALUES + 8, y=y + 17, text=text)
    return drawing
