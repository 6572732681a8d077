"""Moves the differences between a norm's channels into the weights that read them, exactly.

Eight bits per tensor have the steps of the largest channel. A norm has a scale and an offset of its
own for each channel, so these can be chosen freely if the products behind it undo them.

Source: Xiao et al., "SmoothQuant" (ICML 2023); Wei et al., "Outlier Suppression+" (EMNLP 2023).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from daedal.compiler.graph.dataflow import Dataflow, producer_of
from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.rewrite import Rewriter, walk
from daedal.compiler.quantization.calibration.float_runner import OpenModel, evaluate, make_runner
from daedal.compiler.quantization.float_model import FloatModel
from daedal.compiler.quantization.operators import NORMS, channel_axis, product_operands

__all__ = ["balance_norms"]

_SHARE = 0.75
"""Of a channel's magnitude, as exponent, that goes to the weights.
Measured: bench/networks/transformers.py --step accuracy."""

_SAMPLES = 32
"""That are enough for magnitudes of channels."""

_SMALLEST = 1e-5


def balance_norms(
    model: FloatModel,
    samples: Sequence[Mapping[str, Array]],
    open_model: OpenModel = evaluate,
) -> FloatModel:
    """Give the products that read a norm in a residual stream a norm of their own.

    In a network with norms behind its sums, the result of a norm is the residual stream, whose
    largest channels are 20 times the others. The stream keeps 16 bits; the products read 8 bits
    that are balanced. An RMS norm has no offset. Norms that only products read stay as they are:
    measured, vit_mnist and stories260k gain nothing (bench/networks/transformers.py --step
    accuracy).

    Before::

        y = layer_norm(x, scale, bias)
        z = add(y, dense(y, w, b))

    After::

        y = layer_norm(x, scale, bias)
        t = layer_norm(x, scale / s, (bias - o) / s)
        z = add(y, dense(t, s * w, b + o @ w))
    """
    layers = _layers(model.graph)
    if not layers:
        return model
    ranges = _channel_ranges(model, list(layers), samples, open_model)
    balances = {name: _balance(model.graph, name, layers[name], *ranges[name]) for name in layers}

    def scale(graph: Rewriter, layer: Node) -> None:
        norm = _norm_before(graph, layer)
        if norm is not None and norm.output in balances:
            _scale_layer(graph, layer, norm, balances[norm.output])

    return model.with_graph(walk(model.graph, {"dense": scale}))


@dataclass
class _Balance:
    """Of a norm: how much smaller each channel becomes, and what is subtracted before, (channels,)
    float64 each; and the balanced norm and its views, by the tensors that they replace."""

    factor: Array
    offset: Array
    tensors: dict[str, str]


def _layers(graph: Graph) -> dict[str, list[Node]]:
    """The products with weights that read a norm, if a sum reads it, too."""
    found: dict[str, list[Node]] = {}
    for node in graph.nodes:
        norm = _norm_before(graph, node)
        if norm is not None and any(user.op == "add" for user in graph.users[norm.output]):
            found.setdefault(norm.output, []).append(node)
    return found


def _norm_before(graph: Dataflow, node: Node) -> Node | None:
    """The norm that a product with weights reads, or a view of whose rows it reads."""
    if node.op != "dense" or len(product_operands(graph, node)) != 1:
        return None
    view = producer_of(graph, node.inputs[0], ("reshape",))
    norm = producer_of(graph, node.inputs[0] if view is None else view.inputs[0], NORMS)
    if norm is None or not all(map(graph.is_constant, norm.inputs[1:])):
        return None
    channels = {graph.types[name].shape[-1] for name in (norm.output, node.inputs[0])}
    return norm if len(channels) == 1 else None


def _channel_ranges(
    model: FloatModel,
    names: Sequence[str],
    samples: Sequence[Mapping[str, Array]],
    open_model: OpenModel,
) -> dict[str, tuple[Array, Array]]:
    """The smallest and the largest value of each channel, (channels,) each."""
    run = make_runner(model, names, open_model)
    found: dict[str, tuple[Array, Array]] = {}
    for feeds in samples[:_SAMPLES]:
        for name, value in run(feeds).items():
            rows = value.reshape(-1, value.shape[-1]).astype(np.float64)
            low, high = found.get(name, (np.inf, -np.inf))
            found[name] = np.minimum(low, rows.min(axis=0)), np.maximum(high, rows.max(axis=0))
    return found


def _balance(graph: Graph, name: str, layers: Sequence[Node], low: Array, high: Array) -> _Balance:
    """The factor is 1 in the geometric mean."""
    has_offset = graph.producers[name].op == "layer_norm"
    offset = (low + high) / 2 if has_offset else np.zeros_like(low)
    magnitude = np.maximum(np.maximum(high - offset, offset - low), _SMALLEST)
    weights = [np.abs(_weights(graph, layer)).max(axis=1) for layer in layers]
    largest = np.maximum(np.max(weights, axis=0), _SMALLEST)
    factor = magnitude**_SHARE / largest ** (1 - _SHARE)
    return _Balance(np.asarray(factor / np.exp(np.mean(np.log(factor)))), offset, {})


def _weights(graph: Dataflow, layer: Node) -> Array:
    """(channels, outputs) float64."""
    value = graph.constant(layer.inputs[1]).astype(np.float64)
    return value if channel_axis(layer) else value.T


def _scale_layer(graph: Rewriter, layer: Node, norm: Node, balance: _Balance) -> None:
    _, name, *bias = layer.inputs
    weights = _weights(graph, layer)
    scaled = weights * balance.factor[:, None]
    operands = [
        _balanced(graph, layer.inputs[0], norm, balance),
        _constant(graph, name, scaled if channel_axis(layer) else scaled.T),
    ]
    added = balance.offset @ weights
    if bias or added.any():
        known = graph.constant(bias[0]) if bias else 0.0
        operands.append(_constant(graph, bias[0] if bias else f"{name}.bias", added + known))
    graph.replace(layer, operands)


def _balanced(graph: Rewriter, name: str, norm: Node, balance: _Balance) -> str:
    """The balanced form of a norm or of a view of it."""
    if name not in balance.tensors:
        node = graph.producers[name]
        inputs = (
            _norm_operands(graph, norm, balance)
            if node is norm
            else [_balanced(graph, norm.output, norm, balance)]
        )
        base = f"{name}.balanced"
        balance.tensors[name] = graph.add_fresh(node.op, inputs, node.attrs, base=base)
    return balance.tensors[name]


def _norm_operands(graph: Rewriter, norm: Node, balance: _Balance) -> list[str]:
    x, name, *bias = norm.inputs
    operands = [x, _constant(graph, name, graph.constant(name) / balance.factor)]
    if norm.op == "layer_norm":
        shift = (graph.constant(bias[0]) if bias else 0.0) - balance.offset
        base = bias[0] if bias else f"{name}.bias"
        operands.append(_constant(graph, base, shift / balance.factor))
    return operands


def _constant(graph: Rewriter, base: str, value: Array) -> str:
    return graph.fresh_constant(f"{base}.balanced", value.astype(np.float32))
