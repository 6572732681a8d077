"""Takes the mean out of residual streams, so that layer norms become RMS norms. Exact.

A layer norm subtracts the mean of its operand. Where nothing else reads a residual stream, its mean
does not matter: the layers that add to it may compute results without one, and then the norm has
nothing to subtract. It saves a sixth of a norm's work. Its offset goes into the products behind.

Source: Ashkboos et al., "SliceGPT" (ICLR 2024), section 3.1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx

from daedal.compiler.frontend.attributes import attribute
from daedal.compiler.graph.dataflow import Dataflow
from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.ops.movement import pad_margins
from daedal.compiler.graph.ops.registry import ints, whole
from daedal.compiler.graph.rewrite import Rewriter, walk
from daedal.compiler.quantization.operators import channel_axis, kind_of, product_operands
from daedal.compiler.quantization.rewrites.patterns import number_of, same_axis

__all__ = ["centre_streams"]

_Place = tuple[str, int]
"""A tensor and the axis of its channels."""

_PRODUCTS = ("conv2d", "dense")


def centre_streams(graph: Graph) -> Graph:
    """Make RMS norms of those layer norms that read a stream which can be centred.

    Before::

        s = add(s0, dense(a, w, c))
        n = layer_norm(s, scale, bias)
        y = dense(n, v, d)

    After, where ``mean`` is that of each row::

        s = add(s0, dense(a, w - mean(w), c - mean(c)))         # and so for s0
        n = rms_norm(s, scale)
        y = dense(n, v, d + bias @ v)
    """
    centred: set[str] = set()
    offsets: dict[str, Array] = {}
    norms: set[str] = set()
    for node in graph.nodes:
        if node.op != "layer_norm" or node.inputs[0] in centred:
            continue
        stream = _stream_of(graph, node.inputs[0])
        if stream is not None and stream.norms:
            centred |= stream.tensors.keys()
            norms |= stream.norms.keys()
            offsets |= stream.offsets(graph)

    def centre(graph: Rewriter, node: Node) -> None:
        if node.op in _PRODUCTS:
            _change_layer(graph, node, offsets, node.output in centred)
        elif node.output in norms:
            graph.replace(node, node.inputs[:2], op="rms_norm")
        elif node.output in centred:
            _centre_constants(graph, node)

    return walk(graph, dict.fromkeys((*_PRODUCTS, "add", "concat", "layer_norm", "onnx"), centre))


def _change_layer(
    graph: Rewriter, layer: Node, offsets: Mapping[str, Array], is_centred: bool
) -> None:
    """Add to the bias what an offset of the operand adds to the result, and take the mean over the
    channels from both."""
    x, name, *bias = layer.inputs
    weights, axis = graph.constant(name).astype(np.float64), channel_axis(layer)
    added = graph.constant(bias[0]).astype(np.float64) if bias else np.zeros(1)
    if layer.output in offsets:
        added = added + offsets[layer.output] @ (weights if axis else weights.T)
    if is_centred:
        name = _constant(graph, name, weights - weights.mean(axis=axis, keepdims=True))
        added = added - added.mean()
    operands = [x, name]
    if layer.output in offsets or (bias and is_centred):
        operands.append(_constant(graph, bias[0] if bias else f"{layer.output}.bias", added))
        bias = []
    graph.replace(layer, [*operands, *bias])


def _centre_constants(graph: Rewriter, node: Node) -> None:
    """Take the mean from what a sum or a move adds or joins to a stream."""
    inputs = list(node.inputs)
    for number, name in enumerate(inputs):
        if graph.is_constant(name) and graph.types[name].dtype == "float32":
            value = graph.constant(name).astype(np.float64)
            inputs[number] = _constant(graph, name, value - value.mean(axis=-1, keepdims=True))
    graph.replace(node, inputs)


def _constant(graph: Rewriter, base: str, value: Array) -> str:
    return graph.fresh_constant(f"{base}.centred", value.astype(np.float32))


@dataclass
class _Stream:
    """Tensors with a mean that nothing needs.

    Parameters
    ----------
    tensors : all of them, with the axis of their channels.
    norms : the results of the layer norms that read them and can do without their offset, each with
        those of the products that take it.
    """

    tensors: dict[str, int] = field(default_factory=dict)
    norms: dict[str, set[str]] = field(default_factory=dict)

    def offsets(self, graph: Graph) -> dict[str, Array]:
        """What products take, (channels,) float64 each, by their results."""
        return {
            reader: graph.constant(graph.producers[norm].inputs[2]).astype(np.float64)
            for norm, readers in self.norms.items()
            for reader in readers
        }


def _stream_of(graph: Graph, name: str) -> _Stream | None:
    """The stream of a tensor with its channels in the last axis; None if its mean matters."""
    stream = _Stream()
    left = [(name, graph.types[name].rank - 1)]
    while left:
        tensor, axis = left.pop()
        if stream.tensors.setdefault(tensor, axis) != axis:
            return None
        before, behind = _before(graph, tensor, axis), _behind(graph, stream, tensor, axis)
        if before is None or behind is None:
            return None
        left += [(x, at) for x, at in (*before, *behind) if stream.tensors.get(x) != at]
    return stream


def _before(graph: Graph, name: str, axis: int) -> Sequence[_Place] | None:
    """What the tensor is computed from, as far as that must have no mean, too."""
    node = graph.producers.get(name)
    if node is None:
        return None
    if node.op in _PRODUCTS:
        is_mixed = node.op == "dense" or whole(node.attrs, "groups") == 1
        channels = graph.types[name].rank - 1 if node.op == "dense" else 1
        return () if is_mixed and axis == channels and product_operands(graph, node) else None
    moved = _moved(graph, node, axis)
    places = [(node.inputs[number], place) for number, place in moved or ()]
    constants = [(x, place) for x, place in places if graph.is_constant(x)]
    if moved is None or any(place != graph.types[x].rank - 1 for x, place in constants):
        return None
    return [item for item in places if item not in constants]


def _behind(graph: Graph, stream: _Stream, name: str, axis: int) -> Sequence[_Place] | None:
    """What is computed from the tensor, as far as it has no mean, either; `stream` gets norms."""
    if name in graph.outputs:
        return None
    found: list[_Place] = []
    for user in graph.users[name]:
        if user.op == "layer_norm":
            if axis != graph.types[name].rank - 1:
                return None
            readers = _offset_readers(graph, user)
            if readers is not None:
                stream.norms[user.output] = readers
            continue
        operand = (user.inputs.index(name), axis)
        axes = range(graph.types[user.output].rank)
        places = [place for place in axes if operand in (_moved(graph, user, place) or ())]
        if len(places) != 1:
            return None
        found.append((user.output, places[0]))
    return found


def _moved(graph: Dataflow, node: Node, axis: int) -> Sequence[tuple[int, int]] | None:
    """The numbers of the operands of a sum or a move whose means make that of its result, each with
    the axis of its channels, where the result's are in `axis`; None for other operators."""
    result = graph.types[node.output].shape
    shapes = [graph.types[name].shape for name in node.inputs]
    place: int | None = None
    match kind_of(node):
        case "add":
            places = [axis - len(result) + len(shape) for shape in shapes]
            extents = [
                shape[place] if place >= 0 else 0
                for shape, place in zip(shapes, places, strict=True)
            ]
            return list(enumerate(places)) if set(extents) == {result[axis]} else None
        case "concat":
            joins = whole(node.attrs, "axis") == axis
            return None if joins else [(number, axis) for number in range(len(shapes))]
        case "transpose":
            place = ints(node.attrs, "order")[axis]
        case "reshape":
            place = same_axis(result, shapes[0], axis)
        case "Gather":
            place = _gathered_axis(node, shapes[0], len(result), axis)
        case "slice" if shapes[0][axis] == result[axis]:
            place = axis
        case "pad" if not any(pad_margins(node.attrs)[axis]):
            place = axis if all(number_of(graph, x) == 0 for x in node.inputs[1:]) else None
    return None if place is None else [(0, place)]


def _gathered_axis(node: Node, shape: tuple[int, ...], rank: int, axis: int) -> int | None:
    """The axis of what is gathered, if the indices do not choose from it."""
    proto = onnx.NodeProto.FromString(node.attrs["proto"])
    first, more = attribute(proto, "axis", 0) % len(shape), rank - len(shape)
    if axis < first:
        return axis
    return axis - more if axis - more > first else None


def _offset_readers(graph: Graph, norm: Node) -> set[str] | None:
    """The results of the products that read a norm, directly or through moves of its rows; None if
    anything else does. Without an offset, anything may."""
    _, *parameters = norm.inputs
    if not all(map(graph.is_constant, parameters)):
        return None
    if not any(graph.constant(name).any() for name in parameters[1:]):
        return set()
    found: set[str] = set()
    left = [norm.output]
    while left:
        name = left.pop()
        if name in graph.outputs:
            return None
        for user in graph.users[name]:
            last = graph.types[user.output].rank - 1
            if user.op == "dense" and product_operands(graph, user) == (name,):
                found.add(user.output)
            elif user.op in ("reshape", "slice") and _moved(graph, user, last) == [
                (0, graph.types[name].rank - 1)
            ]:
                left.append(user.output)
            else:
                return None
    return found
