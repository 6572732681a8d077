"""A drawing of `bench.tuning.tuner`'s curves: best cycles against measured candidates, one panel
for each workload, as a standalone SVG."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from daedal.runtime.profiler.svg import Drawing, standalone

__all__ = ["curves_drawing"]

_WIDTH, _HEIGHT, _LEFT, _TOP, _PANEL = 430.0, 190.0, 46.0, 30.0, 2
_PLOT_WIDTH, _PLOT_HEIGHT = _WIDTH - _LEFT - 16, _HEIGHT - _TOP - 34
_MOST_ABOVE = 0.5
"""Curves begin at most so far above the optimum; what is above is drawn at the edge."""

_KINDS = {"ours": "busy", "cold": "stall", "without transfer": "wait_alu", "random": "idle"}
"""Methods that are drawn, with the classes of their colours."""


def curves_drawing(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """The SVG of the rows ``search`` of `bench.tuning.tuner`."""
    lines = math.ceil(len(rows) / _PANEL)
    drawing = Drawing(_PANEL * _WIDTH, _TOP + lines * _HEIGHT, "Best cycles by measured candidates")
    for number, (method, kind) in enumerate(_KINDS.items()):
        x = 12 + 190.0 * number
        drawing.add("rect", kind=kind, x=x, y=6, width=18, height=10)
        drawing.add("text", x=x + 24, y=15, text=method)
    for number, (name, row) in enumerate(rows.items()):
        x, y = number % _PANEL * _WIDTH, _TOP + number // _PANEL * _HEIGHT
        _panel(drawing, x + _LEFT, y + 24, name, row)
    return standalone(drawing)


def _panel(drawing: Drawing, x: float, y: float, name: str, row: Mapping[str, Any]) -> None:
    """Axes and curves of one workload; the candidates' axis is logarithmic."""
    most = max(max(method["trials"] for method in row.values()), 2.0)

    def across(trials: float) -> float:
        return x + _PLOT_WIDTH * math.log(max(trials, 1.0)) / math.log(most)

    def down(ratio: float) -> float:
        share = min(max(ratio - 1, 0.0), _MOST_ABOVE) / _MOST_ABOVE
        return y + _PLOT_HEIGHT * (1 - math.sqrt(share))

    drawing.add("text", kind="strong", x=x, y=y - 8, text=name)
    for above in (0.0, 0.01, 0.1, _MOST_ABOVE):
        at = down(1 + above)
        drawing.add("line", x1=x, y1=at, x2=x + _PLOT_WIDTH, y2=at, stroke="#8884")
        drawing.add("text", kind="soft", x=x - 38, y=at + 4, text=f"+{above:.0%}")
    for trials in (1, 10, 100):
        if trials <= most:
            drawing.add(
                "text", kind="soft", x=across(trials), y=y + _PLOT_HEIGHT + 16, text=str(trials)
            )
    for method, kind in _KINDS.items():
        for curve in row.get(method, {}).get("curves", ()):
            _curve(drawing, kind, [(across(at + 1), down(value)) for at, value in enumerate(curve)])
        if method == "random":
            at = across(row[method]["trials"])
            hint = f"uniform draws: {row[method]['trials']:.0f} expected"
            drawing.add("rect", kind=kind, x=at - 2, y=y, width=3, height=_PLOT_HEIGHT, hint=hint)


def _curve(drawing: Drawing, kind: str, points: Sequence[tuple[float, float]]) -> None:
    """Steps from point to point: thin bars, since the classes colour areas."""
    corners = [
        point
        for at, point in enumerate(points)
        if not 0 < at < len(points) - 1 or point[1] != points[at - 1][1]
    ]
    for (x, y), (x_next, y_next) in itertools.pairwise(corners):
        drawing.add("rect", kind=kind, x=x, y=y - 1, width=max(x_next - x, 1.5), height=2)
        top, bottom = min(y, y_next), max(y, y_next)
        drawing.add("rect", kind=kind, x=x_next - 1, y=top - 1, width=2, height=bottom - top + 2)
    if points:
        x, y = points[-1]
        drawing.add("rect", kind=kind, x=x - 3, y=y - 3, width=6, height=6)
