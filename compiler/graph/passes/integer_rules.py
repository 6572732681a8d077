"""The lowering rules of `lower_qdq`, one per float operator.

A rule computes a float tensor, quantized as asked, by integer operators, and returns the name of
the result; None means that the tensor cannot be computed from integers.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.ops.pooling import window_counts
from daedal.compiler.graph.passes.matmul_rule import add_matmul
from daedal.compiler.graph.passes.quantized_weights import find_weights, real_constant
from daedal.compiler.graph.passes.requantization import (
    ADD_MULTIPLIER_BITS,
    Quantization,
    QuantizedTensor,
    make_params,
)
from daedal.isa import numerics
from daedal.isa.errors import ModelError

__all__ = ["LoweringContext", "lower_tensor"]

_MINIMUM = -128
"""Pad value of a maximum pool: no element is smaller."""

_IDENTITY = np.array([[0, 1, 0]], dtype=np.int64)
"""Parameters of a REQUANTIZE that only applies its bounds."""


@dataclass
class LoweringContext:
    """What the rules work with.

    Parameters
    ----------
    graph : the graph that is lowered.
    builder : the one that is built.
    multiplier_bits, accumulator_bits : widths of the variant.
    view : the int8 tensor behind a float tensor that is a dequantize, else None.
    resolved : int8 tensors found for float tensors so far.
    """

    graph: Graph
    builder: GraphBuilder
    multiplier_bits: int
    accumulator_bits: int
    view: Callable[[str], QuantizedTensor | None]
    resolved: dict[str, QuantizedTensor | None] = field(default_factory=dict)

    def params(self, node: Node, output: str, biases: Array, ratios: Array) -> str:
        """Define the parameter constant of an integer operator."""
        values = make_params(node, biases, ratios, self.multiplier_bits, self.accumulator_bits)
        return self.define_params(output, values)

    def define_params(self, output: str, rows: Array) -> str:
        """Define a parameter constant from its rows of [bias, multiplier, shift]."""
        return self.builder.constant(self.builder.fresh_name(f"{output}.params"), rows)

    def rescale(self, node: Node, output: str, x: QuantizedTensor, q: Quantization) -> str:
        """Parameters that take `x` itself to the scale of `q`."""
        biases, ratios = np.array([-x.zero_point]), np.array([x.scale / q.scale])
        return self.params(node, output, biases, ratios)


def lower_tensor(context: LoweringContext, tensor: str, q: Quantization, output: str) -> str | None:
    """Compute the float `tensor`, quantized as `q`, as the int8 tensor `output`.

    ReLU and Clip become bounds; reshapes, transposes and maximum pools commute with the
    quantization, which is monotone and elementwise, so they are applied to its result.
    """
    node = context.graph.producers.get(tensor)
    while node is not None and node.op in ("relu", "clip"):
        low, high = _bounds(node)
        q = q.bounded(low, high)
        tensor = node.inputs[0]
        node = context.graph.producers.get(tensor)
    if node is None:
        return None
    return _RULES.get(node.op, _no_rule)(context, node, q, output)


_Rule = Callable[[LoweringContext, Node, Quantization, str], str | None]


def _no_rule(context: LoweringContext, node: Node, q: Quantization, output: str) -> str | None:
    return None


def _bounds(node: Node) -> tuple[float, float]:
    if node.op == "relu":
        return 0.0, float("inf")
    low, high = node.attrs["low"], node.attrs["high"]
    assert isinstance(low, float) and isinstance(high, float)
    return low, high


def _resolve(context: LoweringContext, tensor: str) -> QuantizedTensor | None:
    """The int8 tensor whose dequantization is `tensor`.

    Reshape, transpose, maximum pool and ReLU of a dequantized tensor are on its grid, so they are
    computed on the integers exactly.
    """
    if tensor not in context.resolved:
        context.resolved[tensor] = context.view(tensor) or _resolve_exact(context, tensor)
    return context.resolved[tensor]


def _resolve_exact(context: LoweringContext, tensor: str) -> QuantizedTensor | None:
    node = context.graph.producers.get(tensor)
    if node is None or node.op not in ("reshape", "transpose", "max_pool", "relu"):
        return None
    x = _resolve(context, node.inputs[0])
    if x is None:
        return None
    output = context.builder.fresh_name(f"{tensor}.int8")
    name = lower_tensor(context, tensor, Quantization(x.scale, x.zero_point), output)
    return None if name is None else QuantizedTensor(name, x.scale, x.zero_point)


def _lower_dequantize(
    context: LoweringContext, node: Node, q: Quantization, output: str
) -> str | None:
    """A change of scale; nothing where scale and zero point stay and the bounds are open.

    Then ``quantize(dequantize(v))`` is `v` for each of the 256 values: the error of two float32
    roundings is far below half a step.
    """
    x = context.view(node.output)
    if x is None:
        return None
    same = (x.scale, x.zero_point) == (q.scale, q.zero_point)
    if same and (q.low, q.high) == (-128, 127):
        return x.name
    if same:
        params = context.define_params(output, _IDENTITY)
        q = Quantization(q.scale, 0, q.low, q.high)
    else:
        params = context.rescale(node, output, x, q)
    return context.builder.add("q_requantize", [x.name, params], q.attrs, output=output)


def _lower_moved(context: LoweringContext, node: Node, q: Quantization, output: str) -> str | None:
    """Reshape and transpose: quantize first, then move."""
    inner = context.builder.fresh_name(f"{node.inputs[0]}.int8")
    name = lower_tensor(context, node.inputs[0], q, inner)
    if name is None:
        return None
    return context.builder.add(node.op, [name], node.attrs, output=output, name=node.name)


def _lower_max_pool(
    context: LoweringContext, node: Node, q: Quantization, output: str
) -> str | None:
    """Maximum of the integers, then the change of scale."""
    x = _resolve(context, node.inputs[0])
    if x is None:
        inner = context.builder.fresh_name(f"{node.inputs[0]}.int8")
        unbounded = Quantization(q.scale, q.zero_point)
        name = lower_tensor(context, node.inputs[0], unbounded, inner)
        if name is None:
            return None
        x = QuantizedTensor(name, q.scale, q.zero_point)
    if (x.scale, x.zero_point) == (q.scale, q.zero_point):
        params = context.define_params(output, _IDENTITY)
        q = Quantization(q.scale, 0, q.low, q.high)
    else:
        params = context.rescale(node, output, x, q)
    attrs = {**node.attrs, "pad_value": _MINIMUM, **q.attrs}
    return context.builder.add("q_max_pool", [x.name, params], attrs, output=output, name=node.name)


def _lower_avg_pool(
    context: LoweringContext, node: Node, q: Quantization, output: str
) -> str | None:
    """Sum of the integers; 1/n goes into the multiplier, one per number n of counted elements.

    Padding is the zero point, a real 0, so one bias serves every window.
    """
    x = _resolve(context, node.inputs[0])
    if x is None:
        return None
    shape = context.graph.types[node.output].shape
    kernel = node.attrs["kernel"]
    assert isinstance(kernel, tuple)
    if node.attrs["count_include_pad"]:
        rows, columns = (kernel[0],) * shape[2], (kernel[1],) * shape[3]
    else:
        rows, columns = window_counts(context.graph.types[node.inputs[0]], node.attrs)
    divisors = tuple(sorted({row * column for row in set(rows) for column in set(columns)}))
    biases = np.full(len(divisors), -kernel[0] * kernel[1] * x.zero_point)
    ratios = x.scale / q.scale / np.array(divisors, dtype=np.float64)
    params = context.params(node, output, biases, ratios)
    attrs = {
        "kernel": kernel,
        "strides": node.attrs["strides"],
        "pads": node.attrs["pads"],
        "pad_value": x.zero_point,
        "counts_h": rows,
        "counts_w": columns,
        "divisors": divisors,
        **q.attrs,
    }
    return context.builder.add("q_avg_pool", [x.name, params], attrs, output=output, name=node.name)


def _lower_add(context: LoweringContext, node: Node, q: Quantization, output: str) -> str | None:
    """Both operands to one fixed-point scale, one rounding.

    The larger factor keeps all its bits, the other shares its shift; zero points fold into the
    bias.
    """
    a, b = (_resolve(context, name) for name in node.inputs)
    if a is None or b is None:
        return None
    ratio_a, ratio_b = a.scale / q.scale, b.scale / q.scale
    try:
        _, shift = numerics.quantize_multiplier(max(ratio_a, ratio_b), ADD_MULTIPLIER_BITS)
    except ValueError as error:
        raise ModelError(f"{error} ({node}); quantize the model again") from error
    factor_a, factor_b = (round(float(np.ldexp(ratio, shift))) for ratio in (ratio_a, ratio_b))
    bias = -(factor_a * a.zero_point + factor_b * b.zero_point)
    params = context.define_params(output, np.array([[bias, 1, shift]], dtype=np.int64))
    attrs = {"multiplier_a": factor_a, "multiplier_b": factor_b, **q.attrs}
    return context.builder.add(
        "q_add", [a.name, b.name, params], attrs, output=output, name=node.name
    )


def _lower_conv2d(context: LoweringContext, node: Node, q: Quantization, output: str) -> str | None:
    x = _resolve(context, node.inputs[0])
    if x is None:
        return None
    operands = _layer_operands(context, node, x, q, output, channel_axis=0)
    attrs = {**node.attrs, "pad_value": x.zero_point, **q.attrs}
    return context.builder.add("q_conv2d", operands, attrs, output=output, name=node.name)


def _lower_dense(context: LoweringContext, node: Node, q: Quantization, output: str) -> str | None:
    x = _resolve(context, node.inputs[0])
    if x is None:
        return None
    channel_axis = 0 if node.attrs["transposed"] else 1
    operands = _layer_operands(context, node, x, q, output, channel_axis)
    return context.builder.add("q_dense", operands, q.attrs, output=output, name=node.name)


def _lower_matmul(context: LoweringContext, node: Node, q: Quantization, output: str) -> str | None:
    a, b = (_resolve(context, name) for name in node.inputs)
    if a is None or b is None:
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


def _layer_operands(
    context: LoweringContext,
    node: Node,
    x: QuantizedTensor,
    q: Quantization,
    output: str,
    channel_axis: int,
) -> list[str]:
    """Operands x, w, params of a layer with weights.

    ``sum w * (x - zx) + b = sum w * x + (b - zx * sum w)``, so the zero point folds into the bias
    as long as the map is padded with it.
    """
    weights = find_weights(context.graph, node, channel_axis)
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
    biases = biases - x.zero_point * wide.sum(axis=1)
    _check_accumulator(node, wide, context.accumulator_bits)
    params = context.params(node, output, biases, product_scales / q.scale)
    return [x.name, _weight_constant(context, weights.name, weights.values), params]


def _check_accumulator(node: Node, wide: Array, accumulator_bits: int) -> None:
    """Refuse a layer whose sum could leave the accumulator: its result would wrap."""
    largest = int(np.abs(wide).sum(axis=1).max()) * 128
    if largest >= 1 << (accumulator_bits - 1):
        raise ModelError(
            f"sums of products must stay below 2**{accumulator_bits - 1}, but they may reach "
            f"{largest} ({node}); split the layer or use a variant with wider accumulators"
        )


def _weight_constant(context: LoweringContext, name: str, values: Array) -> str:
    """The weights as a constant, under their own name where they did not change."""
    original = context.graph.constant(name)
    if original.dtype == values.dtype and np.array_equal(original, values):
        return name
    return context.builder.constant(context.builder.fresh_name(f"{name}.int8"), values)


_RULES: dict[str, _Rule] = {
    "add": _lower_add,
    "avg_pool": _lower_avg_pool,
    "conv2d": _lower_conv2d,
    "dense": _lower_dense,
    "dequantize": _lower_dequantize,
    "matmul": _lower_matmul,
    "max_pool": _lower_max_pool,
    "reshape": _lower_moved,
    "transpose": _lower_moved,
}
