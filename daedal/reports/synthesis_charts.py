"""Drawings of a synthesis report: where the time of the worst paths goes, and who takes the cells.

Input: the record of `daedal.reports.synthesis`. Output: a `Drawing` each.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from daedal.hw.synth.families import RESOURCES
from daedal.runtime.profiler.svg import Drawing, clip_text

__all__ = ["paths_chart", "units_chart"]

_WIDTH = 960.0
_ROW, _BAR, _TOP = 22.0, 14.0, 26.0
_NAMES, _VALUES = 330.0, 150.0
_NAME_LENGTH = 46
_UNITS, _NUMBER, _GAP = 130.0, 56.0, 14.0


def paths_chart(paths: Sequence[Mapping[str, Any]]) -> Drawing:
    """A bar per path: its logic, then its routing."""
    drawing = Drawing(_WIDTH, _TOP + _ROW * len(paths) + 4, "Delay of the worst paths")
    longest = max((path["logic_ns"] + path["routing_ns"] for path in paths), default=0) or 1
    scale = (_WIDTH - _NAMES - _VALUES) / longest
    drawing.add("text", kind="soft", x=_NAMES, y=14, text="in blue: logic; in orange: routing")
    for row, path in enumerate(paths):
        y = _TOP + row * _ROW
        name = " -> ".join(path["modules"])
        drawing.add("text", x=0, y=y + 11, text=f"{row + 1}  {clip_text(name, _NAME_LENGTH)}")
        x = _NAMES
        for kind, key in (("busy", "logic_ns"), ("stall", "routing_ns")):
            width = path[key] * scale
            hint = f"{name}: {key.removesuffix('_ns')} {path[key]:.2f} ns"
            drawing.add("rect", kind=kind, x=x, y=y, width=width, height=_BAR, hint=hint)
            x += width
        text = f"{path['logic_ns'] + path['routing_ns']:.2f} ns; levels: {path['levels']}"
        drawing.add("text", x=x + 8, y=y + 11, text=text)
    return drawing


def units_chart(units: Sequence[tuple[str, Mapping[str, float]]]) -> Drawing:
    """A column per resource, a bar per unit; the longest of a column is the unit with most."""
    drawing = Drawing(_WIDTH, _TOP + _ROW * len(units) + 4, "Resources of the units")
    step = (_WIDTH - _UNITS) / len(RESOURCES)
    room = step - _NUMBER - _GAP
    for row, (unit, _) in enumerate(units):
        drawing.add("text", x=0, y=_TOP + row * _ROW + 11, text=clip_text(unit, 18))
    for column, (name, title) in enumerate(RESOURCES.items()):
        x = _UNITS + column * step
        drawing.add("text", kind="strong", x=x, y=14, text=title)
        total = sum(used[name] for _, used in units) or 1
        most = max((used[name] for _, used in units), default=0) or 1
        for row, (unit, used) in enumerate(units):
            y = _TOP + row * _ROW
            hint = f"{unit}: {used[name]:,.10g} {title}, {100 * used[name] / total:.1f} %"
            width = used[name] / most * room
            drawing.add("rect", kind="busy", x=x, y=y, width=width, height=_BAR, rx=2, hint=hint)
            drawing.add("text", x=x + width + 6, y=y + 11, text=f"{used[name]:,.10g}")
    return drawing
