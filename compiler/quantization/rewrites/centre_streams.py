"""Takes the mean out of residual streams, so that layer norms become RMS norms. Exact.

A layer norm subtracts the mean of its operand. Where nothing else reads a residual stream, its mean
does not matter: the layers that add to it may compute results without one, and then the norm has
nothing to subtract. It saves a sixth of a norm's work. Its offset goes into the products behind.

Source: Ashkboos et al., "SliceGPT" (ICLR 2024), section 3.1.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
import onnx

from daedal.compiler.frontend.attributes import attribute
from daedal.compiler.graph.dataflow import Dataflow
from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.ops.movement import pad_margins
from daedal.compiler.graph.ops.registry import ints, whole
from daedal.compiler.graph.rewrite import Rewriter, walk
from daedal.compiler.quantization.operators import channel_axis, kind_of, product_operands
from daedal.compiler.quantization.rewrites.patterns import constant_of, number_of

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
    change = _Stream()
    for node in graph.nodes:
        if node.op == "layer_norm" and node.inputs[0] not in change.tensors:
            stream = _find_stream(graph, node.inputs[0])
            if stream is not None and stream.norms:
                change.join(stream)
    offsets = {
        reader: graph.producers[norm].inputs[2]
        for norm, readers in change.norms.items()
        for reader in readers
    }

    def change_layer(graph: Rewriter, node: Node) -> None:
        if node.output in change.layers or node.output in offsets:
            offset = constant_of(graph, offsets.get(node.output, ""))
            _change_layer(graph, node, offset, node.output in change.layers)

    def centre_constants(graph: Rewriter, node: Node) -> None:
        numbers = change.constants.get(node.output, ())
        if numbers:
            graph.replace(
                node,
                [
                    _centred(graph, name) if number in numbers else name
                    for number, name in enumerate(node.inputs)
                ],
            )

    def drop_mean(graph: Rewriter, node: Node) -> None:
        if node.output in change.norms:
            graph.replace(node, node.inputs[:2], op="rms_norm")

    sums = dict.fromkeys(("add", "concat", "onnx"), centre_constants)
    return walk(graph, {**dict.fromkeys(_PRODUCTS, change_layer), **sums, "layer_norm": drop_mean})


@dataclass
class _Stream:
    """Tensors with a mean that nothing needs.

    Parameters
    ----------
    tensors : all of them, with the axis of their channels.
    layers : those that products give.
    constants : numbers of the operands that are constant, of sums and moves by their result.
    norms : the results of the layer norms that read them, each with those of the products that take
        its offset.
    """

    tensors: dict[str, int] = field(default_factory=dict)
    layers: set[str] = field(default_factory=set)
    constants: dict[str, set[int]] = field(default_factory=dict)
    norms: dict[str, set[str]] = field(default_factory=dict)

    def join(self, other: "_Stream") -> None:
        """Add another stream."""
        self.tensors |= other.tensors
        self.layers |= other.layers
        self.constants |= other.constants
        self.norms |= other.norms


def _find_stream(graph: Graph, name: str) -> _Stream | None:
    """The stream of a tensor with its channels in the last axis; None if its mean matters."""
    stream = _Stream()
    left = [(name, graph.types[name].rank - 1)]
    while left:
        tensor, axis = left.pop()
        if stream.tensors.setdefault(tensor, axis) != axis:
            return None
        before = _before(graph, stream, tensor, axis)
        behind = _behind(graph, stream, tensor, axis)
        if before is None or behind is None:
            return None
        left += [item for item in (*before, *behind) if item[0] not in stream.tensors]
    return stream


def _before(graph: Graph, stream: _Stream, name: str, axis: int) -> Sequence[_Place] | None:
    """What the tensor is computed from, as far as that must have no mean, too."""
    node = graph.producers.get(name)
    if node is None:
        return None
    if node.op in _PRODUCTS:
        if axis != _channels_of_result(graph, node) or not product_operands(graph, node):
            return None
        if node.op == "conv2d" and whole(node.attrs, "groups") != 1:
            return None  # its channels read different operands
        stream.layers.add(name)
        return ()
    moved = _moved(graph, node, axis)
    if moved is None:
        return None
    for number, place in moved:
        operand = node.inputs[number]
        if graph.is_constant(operand):
            if place != graph.types[operand].rank - 1:
                return None
            stream.constants.setdefault(name, set()).add(number)
    operands = ((node.inputs[number], place) for number, place in moved)
    return [item for item in operands if not graph.is_constant(item[0])]


def _channels_of_result(graph: Dataflow, layer: Node) -> int:
    return graph.types[layer.output].rank - 1 if layer.op == "dense" else 1


def _behind(graph: Graph, stream: _Stream, name: str, axis: int) -> Sequence[_Place] | None:
    """What is computed from the tensor, as far as it has no mean, either."""
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
        places = [
            place
            for place in range(graph.types[user.output].rank)
            if (user.inputs.index(name), axis) in (_moved(graph, user, place) or ())
        ]
        if len(places) != 1:
            return None
        found.append((user.output, places[0]))
    return found


def _moved(graph: Dataflow, node: Node, axis: int) -> Sequence[tuple[int, int]] | None:
    """The numbers of the operands of a sum or a move whose means make that of its result, each with
    the axis of its channels, where the result's are in `axis`; None for other operators."""
    result = graph.types[node.output].shape
    shapes = [graph.types[name].shape for name in node.inputs]
    match kind_of(node):
        case "add":
            places = [axis - len(result) + len(shape) for shape in shapes]
            for shape, place in zip(shapes, places, strict=True):
                if place < 0 or shape[place] != result[axis]:
                    return None
            return list(enumerate(places))
        case "transpose":
            return [(0, ints(node.attrs, "order")[axis])]
        case "reshape":
            return _reshaped(shapes[0], result, axis)
        case "concat" if whole(node.attrs, "axis") != axis:
            return [(number, axis) for number in range(len(shapes))]
        case "Gather":
            return _gathered(node, shapes[0], len(result), axis)
        case "slice" if shapes[0][axis] == result[axis]:
            return [(0, axis)]
        case "pad" if not any(pad_margins(node.attrs)[axis]):
            is_zero = all(number_of(graph, name) == 0 for name in node.inputs[1:])
            return [(0, axis)] if is_zero else None
    return None


def _gathered(
    node: Node, shape: tuple[int, ...], rank: int, axis: int
) -> Sequence[tuple[int, int]] | None:
    """The axis of what is gathered, if the indices do not choose from it."""
    first = attribute(onnx.NodeProto.FromString(node.attrs["proto"]), "axis", 0) % len(shape)
    more = rank - len(shape)
    if axis < first:
        return [(0, axis)]
    return [(0, axis - more)] if axis - more > first else None


def _reshaped(
    shape: tuple[int, ...], result: tuple[int, ...], axis: int
) -> Sequence[tuple[int, int]] | None:
    """The axis of as many elements that are as far apart."""
    inner = prod(result[axis + 1 :])
    for place, extent in enumerate(shape):
        if extent == result[axis] and prod(shape[place + 1 :]) == inner:
            return [(0, place)]
    return None


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


def _change_layer(graph: Rewriter, layer: Node, offset: Array | None, centres: bool) -> None:
    """Add to the bias what an offset of the operand adds to the result, and take the mean over the
    channels from both."""
    x, name, *bias = layer.inputs
    weights, axis = graph.constant(name).astype(np.float64), channel_axis(layer)
    added = graph.constant(bias[0]).astype(np.float64) if bias else np.zeros(1)
    if offset is not None:
        added = added + offset.astype(np.float64) @ (weights if axis else weights.T)
    if centres:
        name = _constant(graph, name, weights - weights.mean(axis=axis, keepdims=True))
        added = added - added.mean()
    operands = [x, name]
    if bias or offset is not None:
        operands.append(_constant(graph, bias[0] if bias else f"{name}.bias", added))
    graph.replace(layer, operands)


def _centred(graph: Rewriter, name: str) -> str:
    value = graph.constant(name).astype(np.float64)
    return _constant(graph, name, value - value.mean(axis=-1, keepdims=True))


def _constant(graph: Rewriter, base: str, value: Array) -> str:
    return graph.fresh_constant(f"{base}.centred", value.astype(np.float32))
