"""Folds batch norms into quantized layers, or turns them into depthwise convolutions."""

from dataclasses import dataclass

import numpy as np

from daedal.common.errors import ModelError
from daedal.compiler.graph.dataflow import first_behind, producer_of, sole_producer
from daedal.compiler.graph.fixpoint import to_fixpoint
from daedal.compiler.graph.graph import Array, AttrValue, Graph, Node
from daedal.compiler.graph.ops.batch_norm import gain_and_offset
from daedal.compiler.graph.ops.registry import number
from daedal.compiler.graph.passes.lowering.quantized_weights import (
    find_weights,
    real_constant,
    weight_axis,
)
from daedal.compiler.graph.rewrite import Rewriter, walk

__all__ = ["fold_batch_norm"]

_LARGEST = 127
_STEPS = 255
"""Steps between the smallest and the largest of 8-bit activations."""

_BIAS_LIMIT = 1 << 30
"""Of a bias, in steps of its accumulator: leaves room for the zero point's part."""

_LAYERS = ("conv2d", "conv_transpose2d", "dense")

_ON_GRID = ("max_pool", "relu", "reshape", "resize", "slice", "transpose")
"""Operators whose result holds only values of their operand."""


@dataclass(frozen=True)
class _Fold:
    """A layer that replaces the batch norm `norm`.

    Parameters
    ----------
    layer : the layer before it that is replaced too, or None.
    weights : integers, output channel first.
    scales, bias : (output channels,) float64: scales of the weights, bias of the sums.
    """

    norm: Node
    layer: Node | None
    weights: Array
    scales: Array
    bias: Array


def fold_batch_norm(graph: Graph) -> Graph:
    """Remove batch norms between quantized tensors.

    After a layer with quantized weights, the gain is folded into their scales and into the bias. If
    it is negative, the integers change sign. A weight of -128 then becomes 127, if that changes the
    quantized result by at most half a step; otherwise the batch norm stays. After a dequantize, a
    batch norm becomes a 1x1 depthwise convolution with weights of +-127, whose scales hold its
    gain.

    Before::

        t = conv2d(x, dequantize(w_q, s, z), b)
        y = batch_norm(t, scale, bias, mean, variance) epsilon=e

    After::

        y = conv2d(x, dequantize(w_q * sign(gain), s * |gain|, 0), b * gain + offset)
    """
    return to_fixpoint("fold_batch_norm", graph, _step, _num_norms)


def _num_norms(graph: Graph) -> int:
    return sum(node.op == "batch_norm" for node in graph.nodes)


def _step(graph: Graph) -> Graph | None:
    """Replace every batch norm that can be now; those behind one wait for the next step."""

    def fold(new: Rewriter, norm: Node) -> None:
        found = _match(graph, norm)
        if found is not None:
            _add_layer(new, found)

    folded = walk(graph, {"batch_norm": fold})
    return None if folded is graph else folded


def _match(graph: Graph, norm: Node) -> _Fold | None:
    """The replacement of `norm`, or None if it stays."""
    try:
        parameters = [real_constant(graph, norm, name, "parameter") for name in norm.inputs[1:]]
    except ModelError:
        return None
    with np.errstate(invalid="ignore", divide="ignore"):
        gain, offset = gain_and_offset(parameters, number(norm.attrs, "epsilon"))
    if not (np.isfinite(gain).all() and np.isfinite(offset).all()):
        return None
    step = _step_of(graph, norm.inputs[0])
    if step is not None and graph.types[norm.output].rank == 4:
        weights = (np.sign(gain) * _LARGEST).astype(np.int64).reshape(-1, 1, 1, 1)
        return _bounded(_Fold(norm, None, weights, np.abs(gain) / _LARGEST, offset), step)
    layer = sole_producer(graph, norm.inputs[0], _LAYERS)
    if layer is None:
        return None
    step = _step_of(graph, layer.inputs[0])
    return None if step is None else _match_layer(graph, norm, layer, gain, offset, step)


def _match_layer(
    graph: Graph, norm: Node, layer: Node, gain: Array, offset: Array, step: float
) -> _Fold | None:
    """The layer with the batch norm folded in; None if its integer weights cannot be found."""
    try:
        wide = layer.op != "conv_transpose2d"
        found = find_weights(graph, layer, weight_axis(layer), wide=wide)
        bias = np.zeros(len(gain))
        if len(layer.inputs) == 3:
            bias = real_constant(graph, layer, layer.inputs[2]).astype(np.float64)
    except ModelError:
        return None
    sign = np.sign(gain).astype(np.int64).reshape(-1, *(1,) * (found.values.ndim - 1))
    weights = found.values.astype(np.int64) * sign
    scales = found.scales * np.abs(gain)
    clipped = np.count_nonzero(weights.reshape(len(weights), -1) > _LARGEST, axis=1)
    result = _result_step(graph, norm)
    if result is not None and np.all(clipped * scales * step * _STEPS <= result / 2):
        weights = np.minimum(weights, _LARGEST)
    return _bounded(_Fold(norm, layer, weights, scales, bias * gain + offset), step)


def _bounded(fold: _Fold, step: float) -> _Fold:
    """The fold with larger scales in channels whose gain is so small that the bias would not fit.

    `step` is that of the layer's input.
    """
    smallest = np.maximum(
        np.abs(fold.bias) / (step * _BIAS_LIMIT), float(np.finfo(np.float32).tiny)
    )
    scales = np.maximum(fold.scales, smallest)
    shrunk = (fold.scales / scales).reshape(-1, *(1,) * (fold.weights.ndim - 1))
    weights = np.rint(fold.weights * shrunk).astype(np.int64)
    return _Fold(fold.norm, fold.layer, weights, scales, fold.bias)


def _add_layer(graph: Rewriter, fold: _Fold) -> None:
    """Add the layer; its result has the name of the batch norm's."""
    name = fold.norm.output
    op, axis = "conv2d", 0
    attrs: dict[str, AttrValue] = {
        "strides": (1, 1),
        "pads": (0, 0, 0, 0),
        "dilations": (1, 1),
        "groups": len(fold.weights),
    }
    if fold.layer is not None:
        op, attrs, axis = fold.layer.op, dict(fold.layer.attrs), weight_axis(fold.layer)
    source = fold.norm if fold.layer is None else fold.layer
    zeros = _zero_points(fold.weights)
    values = np.moveaxis(fold.weights + zeros, 0, axis).astype(np.int8)
    quantized = [
        graph.fresh_constant(f"{name}.weights", values),
        graph.fresh_constant(f"{name}.scales", fold.scales.astype(np.float32)),
        graph.fresh_constant(f"{name}.zero_points", zeros.reshape(-1).astype(np.int8)),
    ]
    base = f"{name}.dequantized"
    weights = graph.add_fresh("dequantize", quantized, {"axis": axis}, base=base)
    bias = graph.fresh_constant(f"{name}.bias", fold.bias.astype(np.float32))
    operands = [source.inputs[0], weights, bias]
    graph.add(op, operands, attrs, output=name, name=source.name)


def _zero_points(weights: Array) -> Array:
    """The smallest zero points with which each channel, (C, ...) of at most 9 bits, fits int8."""
    others = tuple(range(1, weights.ndim))
    lows, highs = (pick(weights, axis=others, keepdims=True) for pick in (np.min, np.max))
    zeros: Array = np.maximum(-128 - lows, 0) + np.minimum(_LARGEST - highs, 0)
    return zeros


def _step_of(graph: Graph, tensor: str) -> float | None:
    """The scale of the int8 tensor that a float one is dequantized from, or None."""
    node = producer_of(graph, first_behind(graph, tensor, _ON_GRID), ("dequantize",))
    if node is None or graph.is_constant(node.inputs[0]):
        return None
    return _scale(graph, node)


def _result_step(graph: Graph, norm: Node) -> float | None:
    """The scale of the result's quantization; None if it is not quantized exactly once."""
    node = norm
    while len(graph.users[node.output]) == 1:
        (node,) = graph.users[node.output]
        if node.op == "quantize":
            return _scale(graph, node)
        if node.op not in ("relu", "clip"):
            break
    return None


def _scale(graph: Graph, node: Node) -> float | None:
    """Scale of a quantize or dequantize node; None if the scales are per channel."""
    scale = graph.constant(node.inputs[1])
    return float(scale.reshape(())) if scale.size == 1 else None
