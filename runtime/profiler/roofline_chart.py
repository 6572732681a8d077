"""`roofline_chart`: layers under the roofs of bus and array, both axes logarithmic.

A layer's filled point is at its multiplications per byte moved and per cycle, without those with
padding. It never lies above the roof: for a layer that started while the previous one was still
storing, at least its roofline's cycles are used. The hollow point, drawn if it differs, is where
the layer would be if no byte crossed the bus twice. Layers without multiplications are omitted.

Source: Williams, Waterman, Patterson, "Roofline: an insightful visual performance model for
multicore architectures", CACM 52(4), 2009.
"""

import math

from daedal.runtime.layers import LayerProfile
from daedal.runtime.profiler.network_profile import NetworkProfile
from daedal.runtime.profiler.svg import Drawing

__all__ = ["roofline_chart"]

_WIDTH, _HEIGHT = 720.0, 420.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 24.0, 16.0, 52.0
_NEAR = 4.0
"""Distance below which the hollow point would overlap the filled one."""
_SHARED_X, _SHARED_Y = 18.0, 12.0
"""Distances below which the numbers of two points would overlap."""
_LETTER = 7.0
"""Width of a letter at most, on average."""
_NAMED = 4
"""Most numbers written below overlapping points."""


class _Axes:
    """Axis ranges, in powers of two, that contain all values, and positions in the drawing."""

    def __init__(self, xs: list[float], ys: list[float]) -> None:
        self.x = (math.floor(math.log2(min(xs))), math.ceil(math.log2(max(xs))))
        self.y = (math.floor(math.log2(min(ys))), math.ceil(math.log2(max(ys))))

    def at_x(self, value: float) -> float:
        low, high = self.x
        return _LEFT + (math.log2(value) - low) / (high - low) * (_WIDTH - _LEFT - _RIGHT)

    def value_at_x(self, place: float) -> float:
        low, high = self.x
        return math.exp2(low + (place - _LEFT) / (_WIDTH - _LEFT - _RIGHT) * (high - low))

    def at_y(self, value: float) -> float:
        low, high = self.y
        return (
            _HEIGHT - _BOTTOM - (math.log2(value) - low) / (high - low) * (_HEIGHT - _TOP - _BOTTOM)
        )


def roofline_chart(profile: NetworkProfile) -> Drawing:
    """The drawing; layers are labelled with their numbers, counted from 1."""
    drawing = Drawing(_WIDTH, _HEIGHT, "Roofline: multiplications per cycle by reuse")
    peak, bus = profile.conditions.macs_per_cycle, profile.conditions.bus_bytes
    numbered = [
        (number, layer)
        for number, layer in enumerate(profile.layers, start=1)
        if layer.layer.needed_macs and layer.cycles > 0 and layer.bytes_moved and layer.bytes_needed
    ]
    ridge = peak / bus
    reuses = [layer.reuse for _, layer in numbered] + [_reuse_once(x) for _, x in numbered]
    rates = [layer.rate for _, layer in numbered]
    rates += [_reuse_once(layer) * bus for _, layer in numbered if _reuse_once(layer) < layer.reuse]
    rates += [peak / 16, peak * 1.5, min([*rates, peak]) / 1.5]
    axes = _Axes([*reuses, ridge / 4, ridge * 4], rates)
    _draw_axes(drawing, axes)
    _draw_roof(drawing, axes, peak, bus)
    for number, layer in numbered:
        _draw_layer(drawing, axes, number, layer)
    _draw_numbers(drawing, axes, numbered)
    return drawing


def _reuse_once(layer: LayerProfile) -> float:
    return layer.layer.needed_macs / layer.bytes_needed


def _draw_axes(drawing: Drawing, axes: _Axes) -> None:
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    for power in range(axes.x[0], axes.x[1] + 1):
        x = axes.at_x(2.0**power)
        drawing.add("line", kind="grid", x1=x, y1=_TOP, x2=x, y2=bottom)
        drawing.add("text", kind="soft middle", x=x, y=bottom + 18, text=_power(power))
    for power in range(axes.y[0], axes.y[1] + 1):
        y = axes.at_y(2.0**power)
        drawing.add("line", kind="grid", x1=_LEFT, y1=y, x2=right, y2=y)
        drawing.add("text", kind="soft end", x=_LEFT - 8, y=y + 4, text=_power(power))
    middle = (_LEFT + right) / 2
    label = "multiply-accumulates per byte moved"
    drawing.add("text", kind="middle", x=middle, y=_HEIGHT - 12, text=label)
    place = f"translate(16 {(_TOP + bottom) / 2:.0f}) rotate(-90)"
    label = "multiply-accumulates per cycle"
    drawing.add("text", kind="middle", x=0, y=0, transform=place, text=label)


def _draw_roof(drawing: Drawing, axes: _Axes, peak: int, bus: int) -> None:
    left, right = 2.0 ** axes.x[0], 2.0 ** axes.x[1]
    # The slope enters the drawing at its left edge or at its bottom, whichever comes later.
    start = max(left, 2.0 ** axes.y[0] / bus)
    corners = [(start, start * bus), (peak / bus, peak), (right, peak)]
    points = " ".join(f"{axes.at_x(x):.1f},{axes.at_y(y):.1f}" for x, y in corners)
    drawing.add("polyline", kind="roof", points=points)
    x = _WIDTH - _RIGHT - 6
    text = f"array: {peak} per cycle"
    drawing.add("text", kind="end", x=x, y=axes.at_y(peak) - 8, text=text)
    # To the left of the slope's middle, above it; where that is too near the edge, further up.
    text = f"bus: {bus} B per cycle"
    end = max(axes.at_x(math.sqrt(start * peak / bus)) - 10, _LEFT + 6 + _LETTER * len(text))
    rate = min(axes.value_at_x(end + 10) * bus, peak)
    drawing.add("text", kind="end", x=end, y=axes.at_y(rate) - 4, text=text)


def _draw_layer(drawing: Drawing, axes: _Axes, number: int, layer: LayerProfile) -> None:
    x, y, reuse_once = axes.at_x(layer.reuse), axes.at_y(layer.rate), _reuse_once(layer)
    once, below = axes.at_x(reuse_once), axes.at_y(min(layer.rate, reuse_once * layer.bus_bytes))
    hint = (
        f"{number} {layer.layer.name}: {layer.rate:.1f} per cycle, {layer.reuse:.1f} per byte "
        f"moved ({reuse_once:.1f} if none moved twice), bound by {layer.bound.value}"
    )
    if abs(once - x) > _NEAR:
        drawing.add("line", kind="reuse", x1=x, y1=y, x2=once, y2=below)
        drawing.add("circle", kind="once", cx=once, cy=below, r=4, hint=hint)
    drawing.add("circle", kind="point", cx=x, cy=y, r=6, hint=hint)


def _draw_numbers(drawing: Drawing, axes: _Axes, numbered: list[tuple[int, LayerProfile]]) -> None:
    """Write numbers below the points; overlapping layers share one list."""
    groups: list[tuple[float, float, list[int]]] = []
    for number, layer in numbered:
        x, y = axes.at_x(layer.reuse), axes.at_y(layer.rate)
        for left, top, numbers in groups:
            if abs(left - x) < _SHARED_X and abs(top - y) < _SHARED_Y:
                numbers.append(number)
                break
        else:
            groups.append((x, y, [number]))
    for x, y, numbers in groups:
        named = ", ".join(map(str, numbers[:_NAMED]))
        text = named if len(numbers) <= _NAMED else f"{named}, …"
        drawing.add("text", kind="strong middle", x=x, y=y + 20, text=text)


def _power(power: int) -> str:
    return f"{2**power:,}" if power >= 0 else f"1/{2**-power}"
