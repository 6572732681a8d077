"""The lowering rules of `lower_qdq` for products: convolutions, dense layers, matrix products."""

import math
from collections.abc import Callable, Mapping
from itertools import accumulate
from operator import mul

import numpy as np

from daedal.common.errors import ModelError, UnsupportedError
from daedal.compiler.graph.graph import Array, AttrValue, Graph, Node
from daedal.compiler.graph.ops.conv_transpose import sub_kernels_of
from daedal.compiler.graph.passes.lowering.attention_rule import lower_attention
from daedal.compiler.graph.passes.lowering.lowering_context import LoweringContext, Rule
from daedal.compiler.graph.passes.lowering.matmul_rule import add_matmul
from daedal.compiler.graph.passes.lowering.quantized_weights import find_weights, real_constant
from daedal.compiler.graph.passes.lowering.requantization import (
    Quantization,
    QuantizedTensor,
    check_sums,
)
from daedal.compiler.graph.selection import PIXELWISE

__all__ = ["RULES", "lower_dense"]


def _lower_conv2d(context: LoweringContext, node: Node, q: Quantization, output: str) -> str | None:
    x = context.resolve(node.inputs[0])
    if x is None:
        return None
    operands = _layer_operands(context, node, x, q, output, channel_axis=0)
    attrs = {**node.attrs, "pad_value": x.zero_point, **q.attrs}
    return context.builder.add("q_conv2d", operands, attrs, output=output, name=node.name)


def _lower_conv_transpose2d(
    context: LoweringContext, node: Node, q: Quantization, output: str
) -> str | None:
    x = context.resolve(node.inputs[0])
    if x is None:
        return None
    shape = context.graph.types[node.output].shape
    kernel = context.graph.types[node.inputs[1]].shape[2:]
    parts = sub_kernels_of(kernel, shape[2:], node.attrs)

    def sums(weights: Array) -> Array:
        """Sums over the taps of every part, which are those added in one accumulator."""
        return np.array(
            [
                weights[:, :, rows.taps][:, :, :, columns.taps].sum(axis=(1, 2, 3))
                for rows, columns in parts
            ]
        )

    operands = _layer_operands(context, node, x, q, output, channel_axis=1, sums=sums)
    attrs = {**node.attrs, "pad_value": x.zero_point, **q.attrs}
    return context.builder.add("q_conv_transpose2d", operands, attrs, output=output, name=node.name)


def lower_dense(context: LoweringContext, node: Node, q: Quantization, output: str) -> str | None:
    """A dense layer of (..., K) as it is: for processors, which keep rows of channels."""
    operands = _dense_operands(context, node, q, output)
    if operands is None:
        return None
    return context.builder.add("q_dense", operands, q.attrs, output=output, name=node.name)


def _lower_dense(context: LoweringContext, node: Node, q: Quantization, output: str) -> str | None:
    is_matrix = context.graph.types[node.inputs[0]].rank == 2
    if is_matrix and not _joins_rows(context.graph, node.inputs[0]):
        return lower_dense(context, node, q, output)
    operands = _dense_operands(context, node, q, output)
    return None if operands is None else _dense_of_rows(context, node, operands, q, output)


def _dense_operands(
    context: LoweringContext, node: Node, q: Quantization, output: str
) -> list[str] | None:
    """Operands x, w, params of a dense layer; None where x is no quantized tensor."""
    x = context.resolve(node.inputs[0])
    if x is None:
        return None
    channel_axis = 0 if node.attrs["transposed"] else 1
    return _layer_operands(context, node, x, q, output, channel_axis)


def _joins_rows(graph: Graph, name: str) -> bool:
    """Whether the rows of a matrix are those of one item: a reshape joined them, before operators
    that keep them, or there is one item only."""
    rows, _ = graph.types[name].shape
    single = all(graph.types[item].shape[:1] in ((), (1,)) for item in graph.inputs)
    if single:
        return rows > 1
    producer = graph.producers.get(name)
    while producer is not None and producer.inputs and producer.op != "transpose":
        outer, *shape = graph.types[producer.inputs[0]].shape or (1,)
        if producer.op == "reshape":
            if outer == 1 < rows and rows in accumulate(shape[:-1], mul, initial=outer):
                return True
        elif outer != rows or len(shape) != len(graph.types[producer.output].shape) - 1:
            return False
        producer = graph.producers.get(producer.inputs[0])
    return False


def _dense_of_rows(
    context: LoweringContext, node: Node, operands: list[str], q: Quantization, output: str
) -> str:
    """A dense layer of (N, ..., K), or of joined rows, as a 1x1 convolution of maps
    (N, K, rows, 1)."""
    builder = context.builder
    x, weights, params = operands
    *others, depth = builder.types[x].shape
    images, *rows = others if len(others) > 1 else (1, *others)
    values = builder.value(weights)
    if values is None:
        values = context.graph.constant(weights)
    kernel = builder.constant(
        builder.fresh_name(f"{weights}.kernel"), values.reshape(*values.shape, 1, 1)
    )

    def view(op: str, name: str, attrs: dict[str, AttrValue], result: str) -> str:
        return builder.add(op, [name], attrs, output=result)

    def fresh(role: str) -> str:
        return builder.fresh_name(f"{output}.{role}")

    count = math.prod(rows)
    stacked = view("reshape", x, {"shape": (images, count, depth)}, fresh("rows"))
    turned = view("transpose", stacked, {"order": (0, 2, 1)}, fresh("turned"))
    maps = view("reshape", turned, {"shape": (images, depth, count, 1)}, fresh("operand"))
    attrs: dict[str, AttrValue] = {**PIXELWISE, **q.attrs}
    result = builder.add(
        "q_conv2d", [maps, kernel, params], attrs, output=fresh("map"), name=node.name
    )
    flat = view("reshape", result, {"shape": (images, len(values), count)}, fresh("columns"))
    order: dict[str, AttrValue] = {"order": (0, 2, 1)}
    if len(others) == 2:
        return view("transpose", flat, order, output)
    back = view("transpose", flat, order, fresh("result"))
    return view("reshape", back, {"shape": context.graph.types[node.output].shape}, output)


def _lower_matmul(context: LoweringContext, node: Node, q: Quantization, output: str) -> str | None:
    a, b = (context.resolve(name) for name in node.inputs)
    if a is None:
        return lower_attention(context, node, q, output)
    if b is None:
        return None
    return add_matmul(
        context.builder,
        node,
        (a, b),
        q,
        output,
        params=lambda biases, ratios: context.params(node, output, biases, ratios),
        accumulator_bits=context.accumulator_bits,
    )


def _sums(weights: Array) -> Array:
    """Sums over all weights of an output channel, as a single part."""
    return np.asarray(weights.reshape(1, len(weights), -1).sum(axis=2))


def _layer_operands(
    context: LoweringContext,
    node: Node,
    x: QuantizedTensor,
    q: Quantization,
    output: str,
    channel_axis: int,
    sums: Callable[[Array], Array] = _sums,
) -> list[str]:
    """Operands x, w, params of a layer with weights.

    `sums` maps weights (O, ...) to (parts, O), the sum of the weights added in an accumulator. Each
    part is a set of outputs with its own weights, and so its own parameters.

    ``sum w * (x - zx) + b = sum w * x + (b - zx * sum w)``, so the zero point folds into the bias
    if the map is padded with the zero point.
    """
    splits = node.op != "conv_transpose2d"
    weights = find_weights(context.graph, node, channel_axis, wide=splits)
    wide = weights.values.astype(np.int64).reshape(weights.values.shape[0], -1)
    product_scales = x.scale * weights.scales
    biases = np.zeros(len(wide), dtype=np.int64)
    if len(node.inputs) == 3:
        real = real_constant(context.graph, node, node.inputs[2]).astype(np.float64)
        steps = np.rint(real / product_scales)
        if not np.all(np.abs(steps) < 1 << 62):
            raise ModelError(
                f"biases must be finite and comparable to the weights ({node}); "
                "quantize the model again"
            )
        biases = steps.astype(np.int64)
        unit = 256 * q.scale if q.wide else q.scale
        _check_biases(node, (real / product_scales - steps) * (product_scales / unit), context)
    totals = sums(weights.values.astype(np.int64))
    largest = int(np.abs(wide).sum(axis=1).max()) * 128
    check_sums(node, largest, context.accumulator_bits)
    ratios = np.tile(product_scales / q.scale, len(totals))
    shifted = (biases - x.zero_point * totals).reshape(-1)
    params = context.params(node, output, shifted, ratios, largest)
    return [x.name, _weight_constant(context, weights.name, weights.values), params]


def _check_biases(node: Node, errors: Array, context: LoweringContext) -> None:
    """Raise UnsupportedError where rounding a bias moves results by too much."""
    worst = float(np.abs(errors).max())
    if worst > context.bias_error:
        raise UnsupportedError(
            "biases must be multiples of the scales of map and weights together, not off by "
            f"{worst:.3g} units of the result ({node}); quantize the biases"
        )


def _weight_constant(context: LoweringContext, name: str, values: Array) -> str:
    """The weights as a constant, under their old name if they did not change."""
    original = context.graph.constant(name)
    if original.dtype == values.dtype and np.array_equal(original, values):
        return name
    return context.builder.constant(context.builder.fresh_name(f"{name}.int8"), values)


RULES: Mapping[str, Rule] = {
    "conv2d": _lower_conv2d,
    "conv_transpose2d": _lower_conv_transpose2d,
    "dense": _lower_dense,
    "matmul": _lower_matmul,
}
