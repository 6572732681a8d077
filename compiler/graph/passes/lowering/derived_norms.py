"""The lowering rule for a norm of 8 bits of a tensor that also has one of 16 bits.

Norms with the same operand and epsilon normalize to the same values, and differ in gain and bias
only. So one is a change of scale and offset per channel of the other, which takes a fifth of the
operations. `daedal quantize` makes such pairs (`daedal.compiler.quantization.rewrites.balance`).
"""

from collections.abc import Iterator

import numpy as np

from daedal.compiler.graph.graph import Array, Node
from daedal.compiler.graph.ops.channel_requantize import Q_CHANNEL_REQUANTIZE
from daedal.compiler.graph.ops.registry import number
from daedal.compiler.graph.passes.lowering.lowering_context import LoweringContext
from daedal.compiler.graph.passes.lowering.map_rows import over_last_axis
from daedal.compiler.graph.passes.lowering.quantized_weights import real_constant
from daedal.compiler.graph.passes.lowering.requantization import Quantization, QuantizedTensor
from daedal.isa.numerics import quantize_multiplier

__all__ = ["derive_norm"]

MOST_STEPS = 1 / 4
"""Of the result, that a step of the 16-bit norm may be."""

_BIAS_LIMIT = (1 << 31) - 1


def derive_norm(context: LoweringContext, node: Node, q: Quantization, output: str) -> str | None:
    """The norm `node`, from one with 16 bits that is computed before.

    With gains g, h and biases b, c of `node` and the other one, and y the other one's result::

        g * n + b = g / h * (y - c + b * h / g)

    It adds the rounding of y and of the offset to the error, each half a step of y, or at most
    `MOST_STEPS` of the result's steps together. Where y saturates, so does the result.

    Before::

        y = layer_norm(x, h, c) epsilon=e
        y_q = quantize(y, sy, 0)                    # int16
        t = layer_norm(x, g, b) epsilon=e
        t_q = quantize(t, st, zt)                   # int8

    After::

        y_q = q_layer_norm(x_q, ...) ...
        t_q = q_channel_requantize(y_q, params) ...
    """
    if q.wide:
        return None
    for other, y in _wide_norms(context, node):
        params = _params(context, node, other, y, q)
        if params is not None:
            operands = [context.define_params(output, params)]
            name = Q_CHANNEL_REQUANTIZE.name
            return over_last_axis(context, node, name, y.name, operands, q.attrs, output)
    return None


def _wide_norms(context: LoweringContext, node: Node) -> Iterator[tuple[Node, QuantizedTensor]]:
    """Norms like `node` whose 16-bit results are computed already."""
    graph = context.graph
    for other in graph.users[node.inputs[0]]:
        alike = other.op == node.op and other.output != node.output
        if not alike or number(other.attrs, "epsilon") != number(node.attrs, "epsilon"):
            continue
        for quantize in graph.users[other.output]:
            if quantize.op != "quantize" or not context.builder.is_defined(quantize.output):
                continue
            for dequantize in graph.users[quantize.output]:
                y = context.view(dequantize.output) if dequantize.op == "dequantize" else None
                if y is not None and y.wide:
                    yield other, y


def _params(
    context: LoweringContext, node: Node, other: Node, y: QuantizedTensor, q: Quantization
) -> Array | None:
    """Rows of [bias, multiplier, shift]; None where `y` is too coarse or has other signs."""
    (g, b), (h, c) = (_gain_and_bias(context, item) for item in (node, other))
    none = (g == 0) & (h == 0)
    g, h = np.where(none, 1.0, g), np.where(none, 1.0, h)
    if (g * h <= 0).any():
        return None
    ratios = g / h * (y.scale / q.scale)
    biases = np.rint((b * h / g - c) / y.scale)
    if ratios.max() > MOST_STEPS or np.abs(biases).max() > _BIAS_LIMIT:
        return None
    width = context.multiplier_bits
    rows = [
        (int(bias), *quantize_multiplier(ratio, width))
        for bias, ratio in zip(biases, ratios, strict=True)
    ]
    return np.array(rows, dtype=np.int64)


def _gain_and_bias(context: LoweringContext, node: Node) -> tuple[Array, Array]:
    gain, *bias = (real_constant(context.graph, node, name) for name in node.inputs[1:])
    gain = gain.astype(np.float64)
    return gain, bias[0].astype(np.float64) if bias else np.zeros_like(gain)
