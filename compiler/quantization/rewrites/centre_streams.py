"""Takes the mean out of residual streams, so that layer norms become RMS norms. Exact.

A layer norm subtracts the mean of its operand. Where nothing else reads a residual stream, its mean
does not matter: the layers that add to it may compute results without one, and then the norm has
nothing to subtract. It saves a sixth of a norm's work. Its offset goes into the products behind.

Source: Ashkboos et al., "SliceGPT" (ICLR 2024), section 3.1.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx

from daedal.common.errors import ModelError
from daedal.compiler.frontend.attributes import attribute
from daedal.compiler.quantization.network import Array, Network
from daedal.compiler.quantization.onnx_operators import (
    channel_axis,
    moved_operands,
    product_operands,
)
from daedal.compiler.quantization.rewrites.clean import clean
from daedal.compiler.quantization.rewrites.edges import Edges
from daedal.compiler.quantization.rewrites.recognize_norms import RMS_OPSET

__all__ = ["centre_streams"]


def centre_streams(network: Network) -> Network:
    """The network with RMS norms for those layer norms that read a stream which can be centred.

    Before::

        s = Add(s0, Gemm(a, W, c))
        y = Gemm(LayerNormalization(s, scale, bias), V, d)

    After, where ``mean`` is that of each row::

        s = Add(s0, Gemm(a, W - mean(W), c - mean(c)))      # and so for s0
        y = Gemm(RMSNormalization(s, scale), V, d + bias @ V)
    """
    found = _Streams(network).all()
    if not found:
        return network
    try:
        network = clean(network.to_model(), RMS_OPSET)
    except ModelError:
        return network  # it has an operator that cannot be converted
    # Constants may have been folded and nodes replaced: the streams are found again.
    for stream in _Streams(network).all():
        stream.centre()
    network.drop_unread()
    return network


@dataclass
class _Stream:
    """Tensors with a mean that nothing needs.

    Parameters
    ----------
    norms : the layer norms that read them, each with the products that read it.
    layers : the products whose results they are, or are views of.
    constants : operand number and node of what is added or joined to them.
    tensors : all of them, with the axis of their channels.
    """

    edges: Edges
    norms: list[tuple[onnx.NodeProto, list[onnx.NodeProto]]] = field(default_factory=list)
    layers: dict[str, onnx.NodeProto] = field(default_factory=dict)
    constants: list[tuple[onnx.NodeProto, int]] = field(default_factory=list)
    tensors: dict[str, int] = field(default_factory=dict)

    def centre(self) -> None:
        """Change the network."""
        for node, number in self.constants:
            value = self._value(node.input[number])
            self._replace(node, number, value - value.mean(axis=-1, keepdims=True))
        for layer in self.layers.values():
            axis = channel_axis(layer)
            for number in range(1, len(layer.input)):
                if layer.input[number]:
                    value = self._value(layer.input[number])
                    along = axis if number == 1 else -1
                    self._replace(layer, number, value - value.mean(axis=along, keepdims=True))
        for norm, readers in self.norms:
            _, _, *bias = norm.input
            for reader in readers if bias else ():
                self._add_offset(reader, self._value(bias[0]))
            norm.op_type = "RMSNormalization"
            del norm.input[2:]

    def _add_offset(self, layer: onnx.NodeProto, offset: Array) -> None:
        """Add to a product's bias what an offset of its operand adds to its result."""
        weights = self._value(layer.input[1])
        added = offset @ (weights if channel_axis(layer) else weights.T)
        if len(layer.input) > 2 and layer.input[2]:
            self._replace(layer, 2, self._value(layer.input[2]).ravel() + added)
        else:
            del layer.input[2:]
            name = self.edges.network.add_constant(f"{layer.output[0]}_offset", _float(added))
            layer.input.append(name)

    def _value(self, name: str) -> Array:
        return np.asarray(self.edges.network.constants[name].astype(np.float64))

    def _replace(self, node: onnx.NodeProto, number: int, value: Array) -> None:
        base = f"{node.input[number]}_centred"
        node.input[number] = self.edges.network.add_constant(base, _float(value))


def _float(value: Array) -> Array:
    return np.asarray(value.astype(np.float32))


class _Streams:
    """Finds the streams of a network."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._edges = Edges.of(network)
        self._types = network.types()

    def all(self) -> list[_Stream]:
        """Streams that can be centred, and that a norm reads whose offset products can take."""
        found: list[_Stream] = []
        seen: set[str] = set()
        for node in self._network.nodes:
            if node.op_type != "LayerNormalization" or node.input[0] in seen:
                continue
            stream = self._from(node.input[0])
            seen.add(node.input[0])
            if stream is not None:
                seen.update(stream.tensors)
                found += [stream] if stream.norms else []
        return found

    def _from(self, name: str) -> _Stream | None:
        """The stream of a tensor with its channels in the last axis; None if its mean matters."""
        stream = _Stream(self._edges)
        left = [(name, len(self._edges.shapes.get(name, ())) - 1)]
        while left:
            tensor, axis = left.pop()
            if stream.tensors.setdefault(tensor, axis) != axis or axis < 0:
                return None
            found = self._before(stream, tensor, axis)
            behind = self._behind(stream, tensor, axis)
            if found is None or behind is None:
                return None
            left += [item for item in (*found, *behind) if item[0] not in stream.tensors]
        return stream

    def _before(self, stream: _Stream, name: str, axis: int) -> Sequence[tuple[str, int]] | None:
        """What the tensor is computed from, as far as that must have no mean, too."""
        node = self._edges.producers.get(name)
        if node is None:
            return None
        if node.op_type in ("Conv", "Gemm", "MatMul"):
            return self._product(stream, node, name, axis)
        operands = self._moved(node, axis)
        if operands is None:
            return None
        found = []
        for number, place in operands:
            operand = node.input[number]
            if operand not in self._network.constants:
                found.append((operand, place))
            elif place == self._network.constants[operand].ndim - 1 and node.op_type != "Reshape":
                stream.constants.append((node, number))
            else:
                return None
        return found

    def _product(
        self, stream: _Stream, node: onnx.NodeProto, name: str, axis: int
    ) -> Sequence[tuple[str, int]] | None:
        """No tensors, but a layer, if its channels are those of the stream and it has weights."""
        shape = self._edges.shapes[name]
        channels = 1 if node.op_type == "Conv" else len(shape) - 1
        if axis != channels or len(product_operands(self._network, self._types, node)) != 1:
            return None
        if node.op_type == "Conv" and attribute(node, "group", 1) != 1:
            return None  # its channels read different operands
        bias = [self._network.constants[item] for item in node.input[2:] if item]
        if any(item.size != shape[axis] for item in bias):
            return None
        stream.layers[name] = node
        return ()

    def _behind(self, stream: _Stream, name: str, axis: int) -> Sequence[tuple[str, int]] | None:
        """What is computed from the tensor, as far as it has no mean, either."""
        if name in self._network.output_names:
            return None
        last = axis == len(self._edges.shapes[name]) - 1
        found = []
        for user in self._edges.users.get(name, ()):
            output = user.output[0]
            if user.op_type == "LayerNormalization":
                if not last or attribute(user, "axis", -1) not in (-1, axis):
                    return None
                readers = self._readers(user)
                if readers is not None and (user, readers) not in stream.norms:
                    stream.norms.append((user, readers))
                continue
            places = [
                place
                for place in range(len(self._edges.shapes.get(output, ())))
                if (user.input[:].index(name), axis) in (self._moved(user, place) or ())
            ]
            if len(places) != 1:
                return None
            found.append((output, places[0]))
        return found

    def _moved(self, node: onnx.NodeProto, axis: int) -> Sequence[tuple[int, int]] | None:
        """The operands of a sum or a move whose means make that of its result, each with the axis
        of its channels, where the result's are in `axis`; None for other operators."""
        shapes = [self._edges.shapes.get(name) for name in node.input]
        result = self._edges.shapes.get(node.output[0])
        numbers = range(2) if node.op_type == "Add" else moved_operands(node)
        if result is None or any(shapes[number] is None for number in numbers):
            return None
        match node.op_type:
            case "Add":
                found = []
                for number in numbers:
                    shape = shapes[number] or ()
                    place = axis - len(result) + len(shape)
                    if place < 0 or shape[place] != result[axis]:
                        return None
                    found.append((number, place))
                return found
            case "Transpose":
                order = attribute(node, "perm", tuple(reversed(range(len(result)))))
                return [(0, int(order[axis]))]
            case "Reshape":
                return self._reshaped(shapes[0] or (), result, axis)
            case "Concat" if attribute(node, "axis") % len(result) != axis:
                return [(number, axis) for number in numbers]
            case "Gather":
                return self._gathered(node, axis)
            case "Slice" if shapes[0] and shapes[0][axis] == result[axis]:
                part = self._edges.slice_of(node)
                return [(0, axis)] if part is not None and part[0] != axis else None
            case "Pad" if self._pads_zeros_beside(node, axis):
                return [(0, axis)]
        return None

    def _gathered(self, node: onnx.NodeProto, axis: int) -> Sequence[tuple[int, int]] | None:
        """The axis of what is gathered, which the indices do not choose from."""
        data, indices = (self._edges.shapes.get(name) for name in node.input)
        if data is None or indices is None:
            return None
        first = attribute(node, "axis", 0) % len(data)
        if axis < first:
            return [(0, axis)]
        return [(0, axis - len(indices) + 1)] if axis >= first + len(indices) else None

    def _pads_zeros_beside(self, node: onnx.NodeProto, axis: int) -> bool:
        """Whether a Pad adds zeros along other axes."""
        _, *operands = node.input
        pads, *filler = (self._network.constants.get(name) for name in operands if name)
        if pads is None or len(operands) > 2 or any(x is None or np.any(x) for x in filler):
            return False
        constant = attribute(node, "mode", b"constant") == b"constant"
        return constant and not np.any(pads.reshape(2, -1)[:, axis])

    def _reshaped(
        self, shape: tuple[int, ...], result: tuple[int, ...], axis: int
    ) -> Sequence[tuple[int, int]] | None:
        """The axis of as many elements that are as far apart."""
        inner, size = int(np.prod(result[axis + 1 :])), result[axis]
        for place, extent in enumerate(shape):
            if extent == size and int(np.prod(shape[place + 1 :])) == inner:
                return [(0, place)]
        return None

    def _readers(self, norm: onnx.NodeProto) -> list[onnx.NodeProto] | None:
        """The products that read a norm, directly or through moves of its rows; None if anything
        else does. Without an offset, anything may."""
        scale, *bias = norm.input[1:]
        if scale not in self._network.constants or any(norm.output[1:]):
            return None
        if not bias or not bias[0] or not np.any(self._network.constants.get(bias[0], 1)):
            return []
        found: list[onnx.NodeProto] = []
        left = [norm.output[0]]
        while left:
            name = left.pop()
            users = self._edges.users.get(name, ())
            if name in self._network.output_names or bias[0] not in self._network.constants:
                return None
            for user in users:
                axis = len(self._edges.shapes.get(user.output[0], ())) - 1
                if product_operands(self._network, self._types, user) == (name,):
                    if user.op_type != "Gemm":
                        return None
                    found.append(user)
                elif user.op_type in ("Reshape", "Slice") and self._keeps_rows(user, axis):
                    left.append(user.output[0])
                else:
                    return None
        return list(_unique(found))

    def _keeps_rows(self, node: onnx.NodeProto, axis: int) -> bool:
        last = len(self._edges.shapes.get(node.input[0], ())) - 1
        return axis >= 0 and self._moved(node, axis) == [(0, last)]


def _unique(nodes: Sequence[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    seen: set[str] = set()
    for node in nodes:
        if node.output[0] not in seen:
            seen.add(node.output[0])
            yield node
