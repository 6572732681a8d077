"""`cycles_chart` and `units_chart`: a row per layer.

The first shows cycles against the roofline, the second what each unit did, as shares of the unit's
own cycles for the layer.
"""

from daedal.isa.profile import UnitCounters
from daedal.isa.table import Unit
from daedal.runtime.layers import LAYER_UNITS, LayerProfile
from daedal.runtime.profiler.legend import LEGEND_HEIGHT, LEGEND_WIDTH, draw_legend
from daedal.runtime.profiler.network_profile import NetworkProfile
from daedal.runtime.profiler.svg import Drawing, clip_text
from daedal.runtime.profiler.timeline import DRAWN

__all__ = ["cycles_chart", "units_chart"]

_WIDTH = 960.0
_ROW, _BAR, _TOP = 22.0, 14.0, 26.0
_NAMES, _VALUES = 190.0, 210.0
_NAME_LENGTH = 22
_GAP = 18.0


def cycles_chart(profile: NetworkProfile) -> Drawing:
    """A bar per layer, as long as its cycles; full colour up to its roofline."""
    drawing = Drawing(_WIDTH, _height(profile), "Cycles of each layer, and its roofline")
    room = _WIDTH - _NAMES - _VALUES
    longest = max([item.cycles for item in profile.layers] + [1])
    drawing.add("text", kind="soft", x=_NAMES, y=14, text="cycles; in blue: the roofline")
    for row, item in enumerate(profile.layers):
        y = _name(drawing, row, item)
        length = item.cycles / longest * room
        least = min(item.roofline_cycles, item.cycles) / longest * room
        hint = (
            f"{item.layer.name}: {item.cycles:,} cycles, roofline {item.roofline_cycles:,.0f} "
            f"({_of_roof(item)}), bound by {item.bound.value}"
        )
        drawing.add(
            "rect", kind="excess", x=_NAMES, y=y, width=length, height=_BAR, rx=2, hint=hint
        )
        drawing.add("rect", kind="least", x=_NAMES, y=y, width=least, height=_BAR, rx=2, hint=hint)
        text = f"{item.cycles:,} · {_of_roof(item)} · {item.bound.value}"
        drawing.add("text", x=_NAMES + length + 8, y=y + 11, text=text)
    return drawing


def units_chart(profile: NetworkProfile) -> Drawing:
    """A bar per layer and unit; each bar represents all of that unit's cycles for the layer."""
    height = _height(profile)
    drawing = Drawing(_WIDTH, height + LEGEND_HEIGHT, "What the units did in each layer")
    room = (_WIDTH - _NAMES) / len(LAYER_UNITS) - _GAP
    for column, unit in enumerate(LAYER_UNITS):
        x = _NAMES + column * (room + _GAP)
        drawing.add("text", kind="strong", x=x, y=14, text=unit.name)
        for row, item in enumerate(profile.layers):
            y = _TOP + row * _ROW
            _stack(drawing, (x, y), room, unit, item.layer.name, item.units[unit])
    for row, item in enumerate(profile.layers):
        _name(drawing, row, item)
    draw_legend(drawing, _WIDTH - LEGEND_WIDTH, height)
    return drawing


def _stack(
    drawing: Drawing,
    place: tuple[float, float],
    room: float,
    unit: Unit,
    name: str,
    counters: UnitCounters,
) -> None:
    x, y = place
    if not counters.cycles:
        drawing.add("text", kind="soft", x=x, y=y + 11, text="no instruction")
    for kind in DRAWN:
        cycles = counters.classes[kind]
        if cycles:
            width = cycles / counters.cycles * room
            what = kind.name.lower()
            hint = (
                f"{name}, {unit.name}: {what.replace('_', ' ')} {cycles:,} of {counters.cycles:,} "
                f"cycles ({100 * cycles / counters.cycles:.1f} %)"
            )
            drawing.add("rect", kind=what, x=x, y=y, width=width, height=_BAR, hint=hint)
            x += width


def _height(profile: NetworkProfile) -> float:
    return _TOP + _ROW * len(profile.layers) + 4


def _name(drawing: Drawing, row: int, item: LayerProfile) -> float:
    """Write a layer's number and name; return the position where its bar begins."""
    y = _TOP + row * _ROW
    text = f"{row + 1}  {clip_text(item.layer.name, _NAME_LENGTH)}"
    drawing.add("text", x=0, y=y + 11, text=text)
    return y


def _of_roof(item: LayerProfile) -> str:
    return f"{100 * item.roofline_share:.0f} % of roof"
