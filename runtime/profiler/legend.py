"""`draw_legend` and `kind_title`: the cycle classes by colour and by name."""

from daedal.isa.registers import CycleClass
from daedal.runtime.bound import WAITS
from daedal.runtime.profiler.svg import Drawing
from daedal.runtime.profiler.timeline import DRAWN

__all__ = ["LEGEND_HEIGHT", "LEGEND_WIDTH", "draw_legend", "kind_title"]

LEGEND_HEIGHT = 26.0
_STEP = 116.0
LEGEND_WIDTH = _STEP * len(DRAWN)


def kind_title(kind: CycleClass) -> str:
    """``wait for LOAD``, ``busy``, ..."""
    return f"wait for {WAITS[kind].name}" if kind in WAITS else kind.name.lower()


def draw_legend(drawing: Drawing, x: float, y: float) -> None:
    """Write all classes into one line of `LEGEND_HEIGHT` that begins at (x, y)."""
    for number, kind in enumerate(DRAWN):
        left = x + number * _STEP
        name = kind.name.lower()
        drawing.add("rect", kind=name, x=left, y=y + 8, width=12, height=12, rx=2)
        drawing.add("text", kind="soft", x=left + 18, y=y + 18, text=kind_title(kind))
