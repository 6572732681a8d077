"""Moves the differences between a norm's channels into the weights that read them, exactly.

Eight bits per tensor have the steps of the largest channel. A norm has a scale and an offset of its
own for each channel, so these can be chosen freely if the products behind it undo them.

Source: Xiao et al., "SmoothQuant" (ICML 2023); Wei et al., "Outlier Suppression+" (EMNLP 2023).
"""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from daedal.compiler.frontend.attributes import is_default
from daedal.compiler.quantization.calibration.float_runner import OpenModel, evaluate, make_runner
from daedal.compiler.quantization.network import Array, Network
from daedal.compiler.quantization.onnx_operators import NORMS
from daedal.compiler.quantization.rewrites.edges import Edges

__all__ = ["balance_norms"]

_SHARE = 0.75
"""Of a channel's magnitude, as exponent, that goes to the weights. Measured: bench/transformers.py
--step accuracy."""

_SAMPLES = 32
"""That are enough for magnitudes of channels."""

_SMALLEST = 1e-5


def balance_norms(
    network: Network,
    samples: Sequence[Mapping[str, Array]],
    open_model: OpenModel = evaluate,
) -> None:
    """Give the products that read a norm in a residual stream a norm of their own.

    In a network with norms behind its sums, the result of a norm is the residual stream, whose
    largest channels are 20 times the others. The stream keeps 16 bits; the products read 8 bits
    that are balanced. An RMS norm has no offset. Norms that only products read stay as they are:
    measured, vit_mnist and stories260k gain nothing (bench/transformers.py --step accuracy).

    Before::

        y = LayerNormalization(x, scale, bias)
        z = Add(y, Gemm(y, W, b))

    After::

        y = LayerNormalization(x, scale, bias)
        t = LayerNormalization(x, scale / s, (bias - o) / s)
        z = Add(y, Gemm(t, s * W, b + o @ W))
    """
    edges = Edges.of(network)
    readers = {
        node.output[0]: found
        for node in network.nodes
        if _is_constant(network, node) and (found := _products(edges, node.output[0]))
    }
    if not readers:
        return
    low, high = _channel_bounds(network, list(readers), samples, open_model)
    nodes: list[onnx.NodeProto] = []
    for node in network.nodes:
        nodes.append(node)
        name = node.output[0]
        if name not in readers:
            continue
        views, layers = readers[name]
        offset = (low[name] + high[name]) / 2 if node.op_type == "LayerNormalization" else 0.0
        magnitude = np.maximum(high[name] - offset, offset - low[name])
        factor = _factor(network, layers, magnitude)
        node = _copy(network, node)
        nodes.append(node)
        for reader in (*views, *layers):
            if reader.input[0] == name:
                reader.input[0] = node.output[0]
        _scale_norm(network, node, factor, offset)
        for layer in layers:
            _scale_layer(network, layer, factor, offset)
    network.nodes = nodes


def _is_constant(network: Network, node: onnx.NodeProto) -> bool:
    return node.op_type in NORMS and all(name in network.constants for name in node.input[1:])


def _products(edges: Edges, name: str) -> tuple[list[onnx.NodeProto], list[onnx.NodeProto]] | None:
    """Views that only products with constant weights read, and all those products; None if there
    are none, or if no sum reads the norm."""
    views: list[onnx.NodeProto] = []
    layers: list[onnx.NodeProto] = []
    for user in edges.users.get(name, ()):
        if user.op_type == "Reshape":
            behind = edges.users.get(user.output[0], ())
            rows = edges.shapes.get(user.output[0], ())[-1:] == edges.shapes[name][-1:]
            if rows and behind and all(_is_layer(edges, item, user.output[0]) for item in behind):
                views.append(user)
                layers += behind
        elif _is_layer(edges, user, name):
            layers.append(user)
    in_stream = any(user.op_type == "Add" for user in edges.users.get(name, ()))
    return (views, layers) if layers and in_stream else None


def _is_layer(edges: Edges, node: onnx.NodeProto, x: str) -> bool:
    constants = edges.network.constants
    operands = [name for name in node.input[1:] if name]
    opset = edges.network.opset
    plain = node.op_type == "Gemm" and node.input[0] == x
    plain = plain and all(is_default(item, "Gemm", opset) for item in node.attribute)
    return plain and x not in edges.network.output_names and all(n in constants for n in operands)


def _channel_bounds(
    network: Network,
    names: Sequence[str],
    samples: Sequence[Mapping[str, Array]],
    open_model: OpenModel,
) -> tuple[dict[str, Array], dict[str, Array]]:
    """The smallest and the largest value of each channel, (channels,) each."""
    run = make_runner(network, names, open_model)
    low: dict[str, Array] = {}
    high: dict[str, Array] = {}
    for feeds in samples[:_SAMPLES]:
        for name, value in run(feeds).items():
            rows = value.reshape(-1, value.shape[-1]).astype(np.float64)
            low[name] = np.minimum(low.get(name, np.inf), rows.min(axis=0))
            high[name] = np.maximum(high.get(name, -np.inf), rows.max(axis=0))
    return low, high


def _factor(network: Network, layers: Sequence[onnx.NodeProto], magnitude: Array) -> Array:
    """How much smaller each channel becomes, (channels,); 1 in the geometric mean."""
    weights = [np.abs(network.constants[layer.input[1]]).max(axis=1) for layer in layers]
    largest = np.maximum(np.max(weights, axis=0).astype(np.float64), _SMALLEST)
    factor = np.maximum(magnitude, _SMALLEST) ** _SHARE / largest ** (1 - _SHARE)
    return np.asarray(factor / np.exp(np.mean(np.log(factor))))


def _copy(network: Network, node: onnx.NodeProto) -> onnx.NodeProto:
    copied = onnx.NodeProto()
    copied.CopyFrom(node)
    copied.name = copied.output[0] = network.fresh(f"{node.output[0]}_balanced")
    return copied


def _scale_norm(
    network: Network, node: onnx.NodeProto, factor: Array, offset: Array | float
) -> None:
    scale, *bias = (network.constants[name] for name in node.input[1:] if name)
    operands = [node.input[0], _constant(network, node.input[1], scale / factor)]
    if node.op_type == "LayerNormalization":
        shift = bias[0] if bias else np.zeros_like(scale)
        base = node.input[2] if bias else node.input[1]
        operands.append(_constant(network, base, (shift - offset) / factor))
    node.ClearField("input")
    node.input.extend(operands)


def _scale_layer(
    network: Network, layer: onnx.NodeProto, factor: Array, offset: Array | float
) -> None:
    x, name, *bias = layer.input
    weights = network.constants[name].astype(np.float64)
    operands = [x, _constant(network, name, weights * factor[:, None])]
    added = np.broadcast_to(offset, factor.shape) @ weights
    known = network.constants[bias[0]].ravel() if bias and bias[0] else 0.0
    if np.any(added) or bias:
        operands.append(_constant(network, bias[0] if bias else name, added + known))
    layer.ClearField("input")
    layer.input.extend(operands)


def _constant(network: Network, base: str, value: Array) -> str:
    return network.add_constant(f"{base}_balanced", value.astype(np.float32))
