"""Rotary embedding of heads: which tensor has the halves of another exchanged, and by what matrix.

A rotation is ``heads * cosines + turned * sines``, where the turned heads are the second half,
negated, and the first. Some models rotate only the first channels of each head.
"""

from itertools import product
from typing import NamedTuple

import numpy as np

from daedal.compiler.graph.dataflow import Dataflow
from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.ops.registry import whole
from daedal.compiler.graph.rewrite import Rewriter, walk
from daedal.compiler.quantization.rewrites.patterns import (
    add_onnx,
    add_slice,
    both_orders,
    producer,
    slice_along,
)

__all__ = ["Rotation", "rotation_of", "turn", "turned_heads", "widen_rotations"]

_AXIS, _RANK = 3, 4
"""The axis of the channels of heads (batch, heads, tokens, width)."""


class Rotation(NamedTuple):
    """A rotation of `rotated` channels of `heads` by these factors: names of tensors."""

    heads: str
    rotated: int
    cosines: str
    sines: str


def rotation_of(graph: Dataflow, node: Node) -> Rotation | None:
    """The rotation that the `add` of two `mul` computes, or None."""
    for names in both_orders(node):
        plain, turned = (producer(graph, name, "mul") for name in names)
        if plain is None or turned is None:
            return None
        for (heads, cosines), (halves, sines) in product(both_orders(plain), both_orders(turned)):
            found = turned_heads(graph, halves)
            if found is not None and found[0] == heads:
                return Rotation(heads, found[1], cosines, sines)
    return None


def turned_heads(graph: Dataflow, name: str) -> tuple[str, int] | None:
    """The heads of which `name` is ``concat(-slice(second half), slice(first half))``, and how many
    channels have halves: the concat may have the other ones as its third part. Or None."""
    node = producer(graph, name, "concat")
    if node is None or graph.types[name].rank != _RANK or whole(node.attrs, "axis") != _AXIS:
        return None
    negated = producer(graph, node.inputs[0], "Neg")
    parts = () if negated is None else (negated.inputs[0], *node.inputs[1:])
    slices = [item for part in parts if (item := producer(graph, part, "slice")) is not None]
    bounds = [slice_along(graph, item) for item in slices]
    heads, width = {item.inputs[0] for item in slices}, graph.types[name].shape[_AXIS]
    if len(slices) != len(node.inputs) or len(heads) != 1 or bounds[0] is None:
        return None
    _, half, end = bounds[0]
    wanted = [(_AXIS, half, end), (_AXIS, 0, half), *([(_AXIS, end, width)] if end < width else [])]
    return (heads.pop(), end) if bounds == wanted and end == 2 * half else None


def turn(values: Array, width: int, rotated: int) -> Array:
    """Columns of heads of `width`: of the first `rotated`, halves exchanged, the first negated."""
    heads = values.reshape(*values.shape[:-1], -1, width)
    first, second, rest = np.split(heads, [rotated // 2, rotated], axis=-1)
    return np.concatenate([-second, first, rest], axis=-1).reshape(values.shape)


def widen_rotations(graph: Graph) -> Graph:
    """Rotate whole heads where a model rotates some channels of each, as blocks of channels want.

    Before, for 8 of 32 channels; t(a) is a with halves exchanged::

        a = slice(q) ... ends=1,2,50,8                  # q: float32[1,2,50,32]
        b = slice(q) begins=0,0,0,8 ...
        y = concat(add(mul(a, cos), mul(t(a), sin)), b) axis=3

    After; the tables are filled up with 1 and 0::

        y = add(mul(q, y.cosines), mul(concat(t(a), b), y.sines))
    """
    return walk(graph, {"concat": _widen})


def _widen(graph: Rewriter, node: Node) -> None:
    total, rest = producer(graph, node.inputs[0], "add"), producer(graph, node.inputs[-1], "slice")
    if len(node.inputs) != 2 or total is None or rest is None:
        return
    rotation, width = rotation_of(graph, total), graph.types[node.output].shape[-1]
    part = None if rotation is None else producer(graph, rotation.heads, "slice")
    if rotation is None or part is None or part.inputs[0] != rest.inputs[0]:
        return
    end = rotation.rotated
    if slice_along(graph, part) != (_AXIS, 0, end) or slice_along(graph, rest) != (
        _AXIS,
        end,
        width,
    ):
        return
    if not graph.is_constant(rotation.cosines) or not graph.is_constant(rotation.sines):
        return
    output, (heads,) = node.output, part.inputs
    second = add_slice(graph, heads, _AXIS, end // 2, end, f"{output}.second")
    first = add_slice(graph, heads, _AXIS, 0, end // 2, f"{output}.first")
    name = graph.fresh_name(f"{output}.negated")
    negated = add_onnx(graph, "Neg", [second], graph.types[second].shape, output=name)
    turned = graph.add_fresh(
        "concat", [negated, first, rest.output], {"axis": _AXIS}, base=f"{output}.turned"
    )
    products = []
    for role, x, table, filler in (
        ("cosines", heads, rotation.cosines, 1),
        ("sines", turned, rotation.sines, 0),
    ):
        factors = _filled(graph.constant(table), end, width, filler)
        name = graph.fresh_constant(f"{output}.{role}", factors)
        products.append(graph.add_fresh("mul", [x, name], base=f"{name}.product"))
    graph.add("add", products, output=output, name=node.name)


def _filled(table: Array, rotated: int, width: int, filler: int) -> Array:
    """A table of rotations (..., rotated) or (..., 1) for heads of `width`."""
    columns = np.broadcast_to(table, (*table.shape[:-1], rotated))
    margin = [*((0, 0) for _ in table.shape[1:]), (0, width - rotated)]
    return np.pad(columns, margin, constant_values=filler)
