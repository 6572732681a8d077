"""`partition_chart`: the parts of a compiled model in order, each in the column of what runs it,
with the tensors that they pass on and the time that they take.

Input: an `Inspection`. Output: a `Drawing`.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import onnx

from daedal.inspection import HostReport, Inspection, LaunchReport, TargetReport
from daedal.runtime.profiler.svg import Drawing, clip_text

__all__ = ["partition_chart"]

_WIDTH = 960.0
_BAR, _TIME = 130.0, 90.0
"""Of the bar of the longest part, and of the text behind it."""
_TOP, _ROW, _BOX, _GAP = 28.0, 92.0, 64.0, 24.0
_CHARACTER = 6.6
"""Of a letter of average width."""
_INPUTS, _OUTPUTS = "inputs", "outputs"
_SHOWN_OPERATORS = 6
_SHOWN_TENSORS = 3


@dataclass(frozen=True)
class _Box:
    """What a row shows. `number` is that of the part, `reads` and `gives` are names of tensors."""

    lane: str
    title: str
    contents: str
    reads: tuple[str, ...]
    gives: tuple[str, ...]
    seconds: float | None = None


def partition_chart(report: Inspection) -> Drawing:
    """A row for each part, in the order in which they run, between inputs and outputs."""
    boxes = _boxes(report)
    lanes = list(dict.fromkeys(box.lane for box in boxes))
    drawing = Drawing(_WIDTH, _TOP + _ROW * len(boxes), "Parts of the model, and what runs them")
    step = (_WIDTH - _BAR - _TIME) / len(lanes)
    left = {lane: column * step for column, lane in enumerate(lanes)}
    for lane in lanes:
        drawing.add("text", kind="strong", x=left[lane], y=14, text=clip_text(lane, 30))
    _add_flows(drawing, boxes, {lane: x + (step - _GAP) / 2 for lane, x in left.items()})
    for row, box in enumerate(boxes):
        _add_box(drawing, box, left[box.lane], _TOP + row * _ROW, step - _GAP)
    _add_times(drawing, boxes)
    return drawing


def _add_flows(drawing: Drawing, boxes: Sequence[_Box], middle: dict[str, float]) -> None:
    """A line from each box to those that read its tensors, behind the boxes."""
    for row, box in enumerate(boxes):
        for source, names in _sources(boxes, row).items():
            drawing.add(
                "line",
                kind="reuse",
                x1=middle[boxes[source].lane],
                y1=_TOP + source * _ROW + _BOX,
                x2=middle[box.lane],
                y2=_TOP + row * _ROW,
                hint=", ".join(names),
            )


def _sources(boxes: Sequence[_Box], row: int) -> dict[int, list[str]]:
    """The rows that give what a row reads, and the names of these tensors."""
    found: dict[int, list[str]] = {}
    for name in boxes[row].reads:
        givers = [number for number in range(row) if name in boxes[number].gives]
        if givers:
            found.setdefault(givers[-1], []).append(name)
    return found


def _add_box(drawing: Drawing, box: _Box, x: float, y: float, width: float) -> None:
    is_launch = box.title.startswith("launch")
    for kind in ("ground", "once" if is_launch else "grid"):
        drawing.add("rect", kind=kind, x=x, y=y, width=width, height=_BOX, rx=6)
    length = int((width - 20) / _CHARACTER)
    shown = f"reads {_names(box.reads)}" if box.reads else ""
    texts = [("strong", box.title), ("", box.contents), ("soft", shown)]
    for line, (kind, text) in enumerate(item for item in texts if item[1]):
        baseline = y + 18 + 18 * line
        drawing.add("text", kind=kind, x=x + 10, y=baseline, text=clip_text(text, length))


def _add_times(drawing: Drawing, boxes: Sequence[_Box]) -> None:
    """A bar for each part whose time is known."""
    known = [box.seconds for box in boxes if box.seconds is not None]
    whole, most = sum(known), max(known, default=0.0)
    if not most:
        return
    drawing.add("text", kind="strong", x=_WIDTH - _BAR - _TIME, y=14, text="time")
    for row, box in enumerate(boxes):
        if box.seconds is None:
            continue
        x, y = _WIDTH - _BAR - _TIME, _TOP + row * _ROW + 24
        width = _BAR * box.seconds / most
        text = f"{1e3 * box.seconds:,.3f} ms"
        hint = f"{box.title}: {text}, {100 * box.seconds / whole:.1f} % of all parts"
        drawing.add("rect", kind="busy", x=x, y=y, width=width, height=14, rx=2, hint=hint)
        drawing.add("text", x=x + width + 6, y=y + 11, text=text)


def _boxes(report: Inspection) -> list[_Box]:
    artifact = report.artifact
    inputs = tuple(item.name for item in artifact.inputs)
    outputs = tuple(item.name for item in artifact.outputs)
    parts = [_box(part, number) for number, part in enumerate(report.parts)]
    return [
        _Box("host", _INPUTS, _names(inputs), (), inputs),
        *parts,
        _Box("host", _OUTPUTS, "", outputs, ()),
    ]


def _box(part: LaunchReport | HostReport | TargetReport, number: int) -> _Box:
    if isinstance(part, LaunchReport):
        layers = [item.layer.name for item in part.layers]
        ends = layers[0] if len(layers) == 1 else f"{layers[0]} to {layers[-1]}"
        title = f"launch, part {number}: {_count(len(layers), 'layer')}, {part.cycles:,} cycles"
        bindings = part.launch.inputs, part.launch.outputs
        reads, gives = (tuple(item.name for item in side) for side in bindings)
        return _Box("accelerator", title, ends, reads, gives, part.seconds)
    if isinstance(part, TargetReport):
        own = part.part
        title = f"{own.target}, part {number}: {_count(len(own.nodes), 'node')}"
        return _Box(
            own.target, title, _operators([node.op for node in own.nodes]), own.inputs, own.outputs
        )
    lane = "host" if part.host.gpu is None else "gpu"
    nodes = [node.op for node in part.host.nodes]
    reads, gives = _tensors(part.host.model)
    title = f"{lane}, part {number}: {_count(len(nodes), 'node')}"
    return _Box(lane, title, _operators(nodes), reads, gives, part.seconds)


def _tensors(model: bytes) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Inputs and outputs of a part's model; a part that only permutes and pads has none."""
    graph = onnx.ModelProto.FromString(model).graph
    own = {item.name for item in graph.initializer}
    inputs = tuple(item.name for item in graph.input if item.name not in own)
    return inputs, tuple(item.name for item in graph.output)


def _operators(names: Sequence[str]) -> str:
    counts = Counter(names)
    shown = [name if many == 1 else f"{name} x {many}" for name, many in counts.items()]
    more = len(shown) - _SHOWN_OPERATORS
    return ", ".join([*shown[:_SHOWN_OPERATORS], *([f"{more} more"] if more > 0 else [])])


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_SHOWN_TENSORS])
    more = len(names) - _SHOWN_TENSORS
    return f"{shown} and {more} more" if more > 0 else shown


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
