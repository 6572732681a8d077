"""`timeline_chart`: a section of a timeline as a drawing; the page shows all of it, zoomable."""

from daedal.runtime.layers import LAYER_UNITS
from daedal.runtime.profiler.legend import LEGEND_HEIGHT, draw_legend
from daedal.runtime.profiler.network_profile import NetworkProfile
from daedal.runtime.profiler.svg import Drawing, clip_text

__all__ = ["timeline_chart"]

_WIDTH, _NAMES = 960.0, 60.0
_TOP, _LANE, _STEP = 4.0, 26.0, 32.0
_LETTER = 7.0
"""Approximate width of a letter."""
_TICKS = 8


def timeline_chart(profile: NetworkProfile, begin: int, end: int) -> Drawing:
    """Layers and units from cycle `begin` to `end` of a profile that has a timeline."""
    timeline = profile.timeline
    assert timeline is not None and begin < end, "a window of a timeline"
    height = _TOP + _STEP * (1 + len(LAYER_UNITS)) + 18
    drawing = Drawing(_WIDTH, height + LEGEND_HEIGHT, f"Timeline, cycles {begin:,} to {end:,}")
    names = {item.layer.tag: item.layer.name for item in profile.layers}
    window = _Window(drawing, begin, end)
    window.name(0, "layer")
    for span in timeline.layer_spans():
        room = window.draw(0, "excess", span.begin, span.end, names[span.tag])
        if room is not None:
            left, width = room
            text = clip_text(names[span.tag], max(1, int(width / _LETTER)))
            drawing.add("text", x=left + 4, y=_TOP + 17, text=text)
    for lane, unit in enumerate(LAYER_UNITS, start=1):
        window.name(lane, unit.name)
        for item in timeline.lane(unit):
            for kind, first, last in item.spans():
                what = kind.name.lower()
                hint = f"{item.label} (instruction {item.instruction}): {what.replace('_', ' ')}"
                window.draw(lane, what, first, last, hint)
    window.ticks(height - 4)
    draw_legend(drawing, _NAMES, height)
    return drawing


class _Window:
    """Maps the cycles between two limits to positions in a drawing."""

    def __init__(self, drawing: Drawing, begin: int, end: int) -> None:
        self._drawing = drawing
        self._begin, self._end = begin, end

    def name(self, lane: int, text: str) -> None:
        self._drawing.add("text", x=0, y=_TOP + lane * _STEP + 17, text=text)

    def draw(
        self, lane: int, kind: str, first: int, last: int, hint: str
    ) -> tuple[float, float] | None:
        """Draw the visible part; return its position and width, or None if nothing is visible."""
        first, last = max(first, self._begin), min(last, self._end)
        if first >= last:
            return None
        left, width = self._at(first), self._at(last) - self._at(first)
        y = _TOP + lane * _STEP
        # A gap of half a unit separates neighbours of the same colour.
        shown = max(0.5, width - 0.5)
        hint = f"{hint}, {last - first:,} cycles"
        self._drawing.add("rect", kind=kind, x=left, y=y, width=shown, height=_LANE, hint=hint)
        return left, width

    def ticks(self, y: float) -> None:
        span = self._end - self._begin
        step = max(1, 10 ** len(str(span // _TICKS)) // 2)
        for cycle in range(-(-self._begin // step) * step, self._end, step):
            self._drawing.add("text", kind="soft", x=self._at(cycle), y=y, text=f"{cycle:,}")

    def _at(self, cycle: int) -> float:
        share = (cycle - self._begin) / (self._end - self._begin)
        return _NAMES + share * (_WIDTH - _NAMES)
