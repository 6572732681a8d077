"""Boxes of tensors: which part of each operand an operator reads for a part of its result."""

import math
from collections.abc import Sequence

from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.attention import MATMULS, masks_of
from daedal.compiler.graph.ops.channel_requantize import Q_CHANNEL_REQUANTIZE
from daedal.compiler.graph.ops.integer_elementwise import ELEMENTWISE
from daedal.compiler.graph.ops.integer_rows import ROW_OPERATORS
from daedal.compiler.graph.ops.looked_up import table_of
from daedal.compiler.graph.ops.registry import ints
from daedal.isa.tensor import Box

__all__ = ["box_shape", "box_size", "joined", "operand_boxes", "whole_box", "within"]

_PIXELS = (0, 2, 3)
_ROWS = (2, 3)
_BY_PIXELS = (Q_CHANNEL_REQUANTIZE.name, *ROW_OPERATORS)


def whole_box(shape: Sequence[int]) -> Box:
    """All of a tensor."""
    return tuple((0, extent) for extent in shape)


def box_shape(box: Box) -> tuple[int, ...]:
    """Its extents."""
    return tuple(end - begin for begin, end in box)


def box_size(box: Box) -> int:
    """Its number of elements."""
    return math.prod(box_shape(box))


def joined(a: Box, b: Box) -> Box:
    """The smallest box that contains both."""
    return tuple((min(x[0], y[0]), max(x[1], y[1])) for x, y in zip(a, b, strict=True))


def within(box: Box, outer: Box) -> Box:
    """Where a box is in another one that contains it."""
    return tuple(
        (begin - first, end - first) for (begin, end), (first, _) in zip(box, outer, strict=True)
    )


def operand_boxes(graph: Graph, node: Node, box: Box) -> tuple[Box, dict[str, Box]]:
    """The smallest box around `box` that `node` can compute alone, and what it reads for that.

    All of an operand that is not named is read. The attributes stay, but for the shape of a reshape
    and the bounds of a slice.
    """
    shape = graph.types[node.output].shape
    first = node.inputs[0] if node.inputs else ""
    if node.op == "reshape":
        source = _before_reshape(graph.types[first].shape, shape, box)
        return (box, {first: source}) if source else _all(graph, node)
    if node.op == "transpose":
        order = ints(node.attrs, "order")
        return box, {first: tuple(box[order.index(axis)] for axis in range(len(order)))}
    if node.op == "q_slice":
        if set(ints(node.attrs, "steps")) != {1}:
            return _all(graph, node)
        begins = ints(node.attrs, "begins")
        moved = zip(box, begins, strict=True)
        return box, {first: tuple((begin + at, end + at) for (begin, end), at in moved)}
    axes = _axes(graph, node)
    if not axes:
        return _all(graph, node)
    kept = tuple(box[axis] if axis in axes else (0, extent) for axis, extent in enumerate(shape))
    boxes = {}
    for name in _data(node):
        extents = graph.types[name].shape
        boxes[name] = tuple(
            kept[axis] if axis in axes else (0, extent) for axis, extent in enumerate(extents)
        )
    return kept, boxes


def _all(graph: Graph, node: Node) -> tuple[Box, dict[str, Box]]:
    boxes = {name: whole_box(graph.types[name].shape) for name in node.inputs}
    return whole_box(graph.types[node.output].shape), boxes


def _data(node: Node) -> tuple[str, ...]:
    """The operands of which a part is enough for a part of the result."""
    if node.op in ELEMENTWISE:
        return node.inputs[: -1 if table_of(node.op, node.inputs) is None else -2]
    return node.inputs[:-1] if node.op == "q_concat" else node.inputs[:1]


def _axes(graph: Graph, node: Node) -> tuple[int, ...]:
    """The axes along which elements of the result depend on the same places of the operands."""
    shape = graph.types[node.output].shape
    if node.op in ELEMENTWISE:
        same = all(graph.types[name].shape == shape for name in _data(node))
        return tuple(range(len(shape))) if same else ()
    if node.op in _BY_PIXELS or node.op == "q_concat":
        return _PIXELS
    if node.op == "q_conv2d":
        kernel = graph.types[node.inputs[1]].shape[2:]
        moves = (*kernel, *ints(node.attrs, "strides"))
        return _PIXELS if set(moves) == {1} and not any(ints(node.attrs, "pads")) else ()
    # Of a product of a tensor with itself, all of it is read.
    if node.op in MATMULS and not masks_of(node) and node.inputs[0] != node.inputs[1]:
        one = graph.types[node.inputs[-1]].shape[0] == 1
        return _ROWS if one or node.op != "q_matmul" else ()
    return ()


def _before_reshape(source: Sequence[int], target: Sequence[int], box: Box) -> Box | None:
    """The box in a tensor of shape `source` whose elements are those of `box` after a reshape, or
    None."""
    found: list[tuple[int, int]] = []
    i = j = 0
    while i < len(source) or j < len(target):
        ins: list[int] = []
        outs: list[int] = []
        while True:
            sizes = math.prod(ins), math.prod(outs)
            if sizes[0] == sizes[1] and ins and outs:
                break
            if (sizes[0] <= sizes[1] and i < len(source)) or j == len(target):
                if i == len(source):
                    break
                ins.append(source[i])
                i += 1
            else:
                outs.append(target[j])
                j += 1
        run = _run(outs, box[j - len(outs) : j])
        before = None if run is None else _box(ins, *run)
        if before is None:
            return None
        found += before
    return tuple(found)


def _run(shape: Sequence[int], box: Box) -> tuple[int, int] | None:
    """The flat indices of the first element of a box and after the last one; None for one whose
    elements do not follow each other."""
    start = 0
    for extent, (begin, _) in zip(shape, box, strict=True):
        start = start * extent + begin
    size, ended = 1, False
    for extent, (begin, end) in zip(reversed(shape), reversed(box), strict=True):
        if ended and end - begin > 1:
            return None
        size *= end - begin
        ended = ended or end - begin < extent
    return start, start + size


def _box(shape: Sequence[int], begin: int, end: int) -> Box | None:
    """The box with the elements from flat index `begin` to before `end`, or None."""
    for axis, extent in enumerate(shape):
        step = math.prod(shape[axis + 1 :])
        if begin % step or end % step:
            continue
        first, last = begin // step, end // step - 1
        if first // extent != last // extent:
            return None
        box = [(first % extent, last % extent + 1)]
        rest = first // extent
        for outer in reversed(shape[:axis]):
            box.insert(0, (rest % outer, rest % outer + 1))
            rest //= outer
        return (*box, *whole_box(shape[axis + 1 :]))
    return () if not shape else None
