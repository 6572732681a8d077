"""Drawings of a search: the Pareto plot, latency to the right and area upwards; a point's parts.

Input: counted variants, the prediction of one. Output: a `Drawing` that tells its figures.
"""

import math
from collections.abc import Mapping, Sequence

from daedal.codesign.results.prediction import Prediction
from daedal.codesign.results.verify import Verified
from daedal.codesign.search.evaluation import Evaluation
from daedal.codesign.search.objectives import Objective, latency_ms
from daedal.hw.synth.families import DEVICES, RESOURCES
from daedal.reports.exploration import array_text
from daedal.reports.synthesis_charts import units_chart
from daedal.runtime.profiler.svg import Drawing

__all__ = ["front_chart", "parts_chart"]

_WIDTH, _HEIGHT = 960.0, 420.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 56.0, 930.0, 16.0, 376.0
_MARGIN = 0.06
"""Part of an axis that stays free at each end."""
_MOST_TICKS = 8
_NARROW = 6.0
"""An axis that spans less than this ratio has ticks at equal steps."""


class _Axis:
    """Logarithmic places between two pixels."""

    def __init__(self, values: Sequence[float], begin: float, end: float) -> None:
        low, high = math.log10(min(values)), math.log10(max(values))
        margin = _MARGIN * (high - low) or 0.1
        self._low, self._high = low - margin, high + margin
        self._begin, self._end = begin, end

    def place(self, value: float) -> float:
        share = (math.log10(value) - self._low) / (self._high - self._low)
        return self._begin + share * (self._end - self._begin)

    def ticks(self) -> list[float]:
        """Round numbers that lie on it."""
        low, high = 10**self._low, 10**self._high
        if high < _NARROW * low:
            power = 10 ** math.floor(math.log10((high - low) / _MOST_TICKS))
            step = next(n * power for n in (1, 2, 5, 10) if (high - low) <= _MOST_TICKS * n * power)
            return [n * step for n in range(math.ceil(low / step), math.floor(high / step) + 1)]
        for digits in ((1, 2, 3, 5, 7), (1, 2, 5), (1,)):
            powers = range(math.floor(self._low), math.ceil(self._high) + 1)
            values = (digit * 10.0**power for power in powers for digit in digits)
            found = [value for value in values if low <= value <= high]
            if len(found) <= _MOST_TICKS:
                break
        return found


def front_chart(
    front: Sequence[Evaluation],
    others: Sequence[Evaluation],
    verified: Sequence[Verified] = (),
    *,
    energy: bool = False,
    links: Mapping[str, str] | None = None,
) -> Drawing:
    """Full points for the front, hollow ones for other variants; a dashed line leads from a
    predicted point to what was measured of it. With `energy`, points tell that, too.

    `links` are the ids of the page's elements that points of the front lead to, by variant.
    """
    drawing = Drawing(_WIDTH, _HEIGHT, "Latency and area of the counted variants")
    measured = {item.variant: place for item in verified if (place := _measured(front, item))}
    shown = [_values(item) for item in (*front, *others)] + list(measured.values())
    x = _Axis([latency for latency, _ in shown], _LEFT, _RIGHT)
    y = _Axis([area for _, area in shown], _BOTTOM, _TOP)
    _draw_axes(drawing, x, y)
    for item in others:
        cx, cy = _place(x, y, _values(item))
        drawing.add("circle", kind="once", cx=cx, cy=cy, r=3.5, hint=_hint(item, energy))
    _draw_stairs(drawing, x, y, sorted(_values(item) for item in front))
    for item in front:
        cx, cy = _place(x, y, _values(item))
        if item.variant.name in measured:
            there = measured[item.variant.name]
            x2, y2 = _place(x, y, there)
            hint = f"{item.variant.name}, measured: {_figures(*there)}"
            drawing.add("line", kind="reuse", x1=cx, y1=cy, x2=x2, y2=y2)
            drawing.add("circle", kind="stall", cx=x2, cy=y2, r=4, hint=hint)
        link = (links or {}).get(item.variant.name, "")
        hint = _hint(item, energy)
        drawing.add("circle", kind="point", cx=cx, cy=cy, r=6, hint=hint, link=link)
    return drawing


def parts_chart(prediction: Prediction) -> Drawing:
    """The area of a point by part, the largest first, in whole resources."""
    units = sorted(prediction.units.items(), key=lambda unit: -unit[1]["lut"])
    return units_chart(
        [
            (name, {key: max(0.0, float(round(amount))) for key, amount in used.items()})
            for name, used in units
        ]
    )


def _values(item: Evaluation) -> tuple[float, float]:
    return item.value(Objective.latency), item.value(Objective.area)


def _place(x: _Axis, y: _Axis, values: tuple[float, float]) -> tuple[float, float]:
    return x.place(values[0]), y.place(values[1])


def _measured(front: Sequence[Evaluation], item: Verified) -> tuple[float, float] | None:
    """Latency with the routed clock, and area as synthesized; None where nothing was routed."""
    if item.mhz is None:
        return None
    (point,) = (point for point in front if point.variant.name == item.variant)
    device = DEVICES[point.family]
    cycles = {name: found for name, (_, found) in item.cycles.items()}
    area = max(used / getattr(device, name) for name, (_, used) in item.resources.items())
    return latency_ms(cycles, item.mhz, point.host_ms), 100 * area


def _figures(latency: float, area: float) -> str:
    return f"{latency:.4g} ms, {area:.1f} % of the device"


def _hint(item: Evaluation, energy: bool) -> str:
    used = ", ".join(f"{item.resources[name]:,.0f} {RESOURCES[name]}" for name in RESOURCES)
    cycles = ", ".join(f"{name} {count:,.0f} cycles" for name, count in item.cycles.items())
    figures = _figures(*_values(item))
    relative = f"energy {item.value(Objective.energy):,.4g}; " if energy else ""
    return (
        f"{item.variant.name}, {array_text(item)}: {figures}; {relative}{cycles}; "
        f"{item.mhz:.0f} MHz; {used}"
    )


def _draw_axes(drawing: Drawing, x: _Axis, y: _Axis) -> None:
    drawing.add("path", kind="grid", d=f"M{_LEFT:.1f} {_TOP:.1f}V{_BOTTOM:.1f}H{_RIGHT:.1f}")
    for value in x.ticks():
        at = x.place(value)
        drawing.add("line", kind="grid", x1=at, x2=at, y1=_TOP, y2=_BOTTOM)
        drawing.add("text", kind="soft middle", x=at, y=_BOTTOM + 16, text=f"{value:g}")
    for value in y.ticks():
        at = y.place(value)
        drawing.add("line", kind="grid", x1=_LEFT, x2=_RIGHT, y1=at, y2=at)
        drawing.add("text", kind="soft end", x=_LEFT - 6, y=at + 4, text=f"{value:g}")
    drawing.add("text", kind="soft end", x=_RIGHT, y=_HEIGHT - 6, text="latency, ms")
    drawing.add("text", kind="soft", x=_LEFT + 6, y=_TOP + 10, text="area, % of the device")


def _draw_stairs(
    drawing: Drawing, x: _Axis, y: _Axis, values: Sequence[tuple[float, float]]
) -> None:
    """The border of what the front dominates, from the fastest point to the smallest."""
    path, least = "", math.inf
    for latency, area in values:
        if area < least:  # with limits or one objective, some may not be on this front
            at_x, at_y = x.place(latency), y.place(area)
            path += f"H{at_x:.1f}V{at_y:.1f}" if path else f"M{at_x:.1f} {at_y:.1f}"
            least = area
    drawing.add("path", kind="roof", d=path)
