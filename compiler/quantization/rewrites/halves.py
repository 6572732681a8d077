"""Rotary embedding of heads: which tensor has the halves of another exchanged, and by what matrix.

A rotation is ``heads * cosines + turned * sines``, where the turned heads are the second half,
negated, and the first. Some models rotate only the first channels of each head.
"""

import numpy as np
import onnx
from onnx import helper

from daedal.compiler.frontend.attributes import attribute
from daedal.compiler.quantization.network import Array, Network
from daedal.compiler.quantization.rewrites.edges import Edges

__all__ = ["turn", "turned_heads", "widen_rotations"]

_AXIS, _RANK = 3, 4
"""The axis of the channels of heads (batch, heads, tokens, width)."""


def turned_heads(edges: Edges, name: str) -> tuple[str, int] | None:
    """The heads of which `name` is ``Concat(Neg(Slice(second half)), Slice(first half))``, and how
    many channels have halves: the Concat may have the other ones as its third part. Or None."""
    node = edges.producer(name, "Concat")
    if node is None or len(node.input) not in (2, 3) or not _is_last(edges, name, node):
        return None
    negated = edges.producer(node.input[0], "Neg")
    parts = ["" if negated is None else negated.input[0], *node.input[1:]]
    slices = [edges.producer(part, "Slice") for part in parts]
    bounds = [None if item is None else edges.slice_of(item) for item in slices]
    sources = {item.input[0] for item in slices if item is not None}
    if bounds[0] is None or len(sources) != 1:
        return None
    _, half, end = bounds[0]
    width = edges.shapes[name][_AXIS]
    wanted = [(_AXIS, half, end), (_AXIS, 0, half), (_AXIS, end, width)][: len(parts)]
    is_turned = bounds == wanted and end == 2 * half and (end == width) == (len(parts) == 2)
    return (str(sources.pop()), end) if is_turned else None


def turn(values: Array, width: int, rotated: int) -> Array:
    """Columns of heads of `width`: of the first `rotated`, halves exchanged, the first negated."""
    heads = values.reshape(*values.shape[:-1], -1, width)
    first, second, rest = np.split(heads, [rotated // 2, rotated], axis=-1)
    return np.concatenate([-second, first, rest], axis=-1).reshape(values.shape)


def widen_rotations(network: Network) -> None:
    """Rotate whole heads where a model rotates some channels of each, as blocks of channels want.

    Before -> after, for 8 of 32 channels; t has halves exchanged::

        Concat(Add(Mul(Slice(q), cos), Mul(t(Slice(q)), sin)), Slice(q))
        Add(Mul(q, concat(cos, 1)), Mul(Concat(t(Slice(q)), Slice(q)), concat(sin, 0)))
    """
    edges = Edges.of(network)
    network.rewrite(lambda node: _widened(edges, node))
    network.drop_unread()


def _widened(edges: Edges, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
    """The rotation of whole heads that `node` is, or None."""
    if node.op_type != "Concat" or len(node.input) != 2:
        return None
    total, rest = edges.producer(node.input[0], "Add"), edges.producer(node.input[1], "Slice")
    part = None if rest is None else edges.slice_of(rest)
    if total is None or rest is None or part is None or not _is_last(edges, node.output[0], node):
        return None
    heads, width = rest.input[0], edges.shapes[node.output[0]][_AXIS]
    factors: dict[str, Array] = {}
    turned = None
    for product in (edges.producer(name, "Mul") for name in total.input):
        for x, number in () if product is None else (product.input, reversed(product.input)):
            value = edges.network.constants.get(number)
            source = turned_heads(edges, x)
            if value is None:
                continue
            if _first_channels(edges, x) == (heads, part[1]):
                factors["cosines"] = value
            elif source is not None and _first_channels(edges, source[0]) == (heads, part[1]):
                factors["sines"], turned = value, edges.producer(x, "Concat")
    if turned is None or len(factors) < 2 or part != (_AXIS, part[1], width):
        return None
    output, network = node.output[0], edges.network
    whole, *names = (network.fresh(f"{output}_{role}") for role in ("turned", "plain", "other"))
    values = []
    for role, filler in (("cosines", 1), ("sines", 0)):
        value = np.broadcast_to(factors[role], (*factors[role].shape[:-1], part[1]))
        margin = [*((0, 0) for _ in value.shape[1:]), (0, width - part[1])]
        filled = np.pad(value, margin, constant_values=filler)
        values.append(network.add_constant(f"{output}_{role}", filled))
    parts = _slices_of(edges, heads, part[1] // 2, part[1], output)
    negated = network.fresh(f"{output}_negated")
    return [
        *parts,
        helper.make_node("Neg", [parts[0].output[0]], [negated], name=negated),
        helper.make_node(
            "Concat",
            [negated, parts[1].output[0], rest.output[0]],
            [whole],
            name=whole,
            axis=_AXIS,
        ),
        helper.make_node("Mul", [heads, values[0]], [names[0]], name=names[0]),
        helper.make_node("Mul", [whole, values[1]], [names[1]], name=names[1]),
        helper.make_node("Add", names, [output], name=node.name),
    ]


def _slices_of(
    edges: Edges, heads: str, half: int, end: int, output: str
) -> tuple[onnx.NodeProto, onnx.NodeProto]:
    """The second and the first half of the channels up to `end`."""

    def part(role: str, begin: int, end: int) -> onnx.NodeProto:
        name = edges.network.fresh(f"{output}_{role}")
        bounds = [
            edges.network.add_constant(f"{name}_{place}", np.array([value], dtype=np.int64))
            for place, value in (("begin", begin), ("end", end), ("axis", _AXIS))
        ]
        return helper.make_node("Slice", [heads, *bounds], [name], name=name)

    return part("second", half, end), part("first", 0, half)


def _first_channels(edges: Edges, name: str) -> tuple[str, int] | None:
    """The heads of which `name` has the first channels, and how many."""
    node = edges.producer(name, "Slice")
    part = None if node is None else edges.slice_of(node)
    if node is None or part is None or part[:2] != (_AXIS, 0):
        return None
    return node.input[0], part[2]


def _is_last(edges: Edges, name: str, node: onnx.NodeProto) -> bool:
    """Whether a Concat of four axes is along the last one."""
    rank = len(edges.shapes.get(name, ()))
    return rank == _RANK and attribute(node, "axis", 0) in (-1, _AXIS)
