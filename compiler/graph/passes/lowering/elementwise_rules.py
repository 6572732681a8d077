"""The lowering rules of `lower_qdq` for elementwise operators."""

from collections.abc import Mapping, Sequence

import numpy as np

from daedal.compiler.graph.graph import Array, Node
from daedal.compiler.graph.passes.lowering.lowering_context import LoweringContext, Rule
from daedal.compiler.graph.passes.lowering.requantization import (
    Quantization,
    QuantizedTensor,
    shared_factors,
    wide_factors,
)

__all__ = ["RULES"]

LARGEST_PRODUCT = 255 * 255
"""Of two 8-bit integers less their zero points."""


def _lower_dequantize(
    context: LoweringContext, node: Node, q: Quantization, output: str
) -> str | None:
    """A change of scale, or nothing if scale and zero point stay and there are no bounds.

    In the latter case ``quantize(dequantize(v))`` is `v` for each of the 256 values: the error of
    two float32 roundings is far below half a step.
    """
    x = context.view(node.output)
    return None if x is None else _requantize(context, node, x, q, output)


def _requantize(
    context: LoweringContext, node: Node, x: QuantizedTensor, q: Quantization, output: str
) -> str:
    """`x` requantized to the scale of `q`, or `x` itself if that changes nothing."""
    same = (x.scale, x.zero_point, x.wide) == (q.scale, q.zero_point, q.wide)
    if same and q == q.unbounded:
        return x.name
    params, finish = context.rescale(node, output, x, q)
    return context.builder.add("q_requantize", [x.name, params], finish.attrs, output=output)


def _lower_add(context: LoweringContext, node: Node, q: Quantization, output: str) -> str | None:
    """Bring both operands to one fixed-point scale, add, and round once."""
    return _lower_sum(context, node, q, output, (1, 1))


def _lower_sub(context: LoweringContext, node: Node, q: Quantization, output: str) -> str | None:
    """An addition whose second factor is negative."""
    return _lower_sum(context, node, q, output, (1, -1))


def _lower_sum(
    context: LoweringContext, node: Node, q: Quantization, output: str, signs: tuple[int, int]
) -> str | None:
    """The larger factor keeps all its bits, and the other uses the same shift. Zero points are
    folded into the bias. Where an operand or the result is wide, a multiplier follows the sum.
    """
    found = _operands(context, node, wide=True)
    if found is None:
        return None
    a, b, swapped = found
    sign_a, sign_b = reversed(signs) if swapped else signs
    if a.wide or b.wide or q.wide:
        (factor_a, factor_b), multiplier, shift = wide_factors(
            node, (a, b), q.scale, context.multiplier_bits, context.accumulator_bits
        )
    else:
        ratios = (a.scale / q.scale, b.scale / q.scale)
        (factor_a, factor_b), shift = shared_factors(
            node, ratios, summed=True, bits=context.factor_bits
        )
        multiplier = 1
    factor_a, factor_b = sign_a * factor_a, sign_b * factor_b
    bias = -(factor_a * a.zero_point + factor_b * b.zero_point)
    params = context.define_params(output, np.array([[bias, multiplier, shift]], dtype=np.int64))
    attrs = {"multiplier_a": factor_a, "multiplier_b": factor_b, **q.attrs}
    return context.builder.add(
        "q_add", [a.name, b.name, params], attrs, output=output, name=node.name
    )


def _lower_mul(context: LoweringContext, node: Node, q: Quantization, output: str) -> str | None:
    """Product of the integers less their zero points; the three scales become one factor.

    A product with a single positive number is only a change of scale.
    """
    scaled = context.scaled(node.output)
    if scaled is not None:
        return _requantize(context, node, scaled, q, output)
    found = None if q.wide else _operands(context, node)
    if found is None:
        return None
    a, b, _ = found
    ratios = np.array([a.scale * b.scale / q.scale])
    params = context.params(node, output, np.zeros(1, dtype=np.int64), ratios, LARGEST_PRODUCT)
    attrs = {"zero_point_a": a.zero_point, "zero_point_b": b.zero_point, **q.attrs}
    return context.builder.add(
        "q_mul", [a.name, b.name, params], attrs, output=output, name=node.name
    )


def _lower_maximum(
    context: LoweringContext, node: Node, q: Quantization, output: str
) -> str | None:
    """The larger of both operands, brought to one fixed-point scale if theirs differ."""
    found = None if q.wide else _operands(context, node)
    if found is None:
        return None
    a, b, _ = found
    zeros, finish = (0, 0), q
    factors: Sequence[int] = (1, 1)
    if (a.scale, a.zero_point) == (b.scale, b.zero_point):
        params, finish = context.rescale(node, output, a, q)
    else:
        ratios = (a.scale / q.scale, b.scale / q.scale)
        factors, shift = shared_factors(node, ratios, summed=False, bits=context.factor_bits)
        zeros = a.zero_point, b.zero_point
        params = context.define_params(output, np.array([[0, 1, shift]], dtype=np.int64))
    attrs = {
        "zero_point_a": zeros[0],
        "zero_point_b": zeros[1],
        "multiplier_a": factors[0],
        "multiplier_b": factors[1],
        **finish.attrs,
    }
    return context.builder.add(
        "q_maximum", [a.name, b.name, params], attrs, output=output, name=node.name
    )


def _lower_leaky_relu(
    context: LoweringContext, node: Node, q: Quantization, output: str
) -> str | None:
    """Bring the factors of positive and negative values to one fixed-point scale.

    If the result has the scale, zero point and range of `x`, it is the larger of `x` and a
    requantization of `x`, which takes fewer operations and gives the same bytes. Proof: let v be
    ``x - zero_point``, f <= 1 the factor of negative values, and r(v) ``f * v`` rounded half to
    even. Rounding is monotone and keeps integers, so r(v) >= v where v < 0, and r(v) <= v
    elsewhere. The larger of v and r(v) is thus r(v) for negative v and v for others, as it should
    be, and lies between v and 0, so no bound applies.
    """
    x = context.resolve(node.inputs[0])
    if x is None:
        return None
    slope = node.attrs["slope"]
    assert isinstance(slope, float)
    ratio = x.scale / q.scale
    ratios = (ratio, ratio * abs(slope))
    (positive, negative), shift = shared_factors(
        node, ratios, summed=False, bits=context.factor_bits
    )
    if (
        (q.zero_point, q.low, q.high) == (x.zero_point, -128, 127)
        and positive == 1 << shift
        and 0 <= slope <= 1
        and negative < 1 << context.multiplier_bits
    ):
        row = np.array([[-x.zero_point, negative, shift]], dtype=np.int64)
        params = context.define_params(output, row)
        return context.builder.add(
            "q_max_requantized", [x.name, params], q.attrs, output=output, name=node.name
        )
    params = context.define_params(output, np.array([[0, 1, shift]], dtype=np.int64))
    attrs = {
        "zero_point_x": x.zero_point,
        "multiplier_positive": positive,
        "multiplier_negative": negative if slope >= 0 else -negative,
        **q.attrs,
    }
    return context.builder.add(
        "q_leaky_relu", [x.name, params], attrs, output=output, name=node.name
    )


def _operands(
    context: LoweringContext, node: Node, *, wide: bool = False
) -> tuple[QuantizedTensor, QuantizedTensor, bool] | None:
    """Both operands of `node`, the one with the result's shape first; whether they were swapped.

    None if one is not quantized, or wide without `wide`, or if neither has the result's shape.
    """
    shape = context.graph.types[node.output].shape
    first, second = (_operand(context, name, shape, wide=wide) for name in node.inputs)
    if first is None or second is None:
        return None
    swapped = context.builder.types[first.name].shape != shape
    if swapped:
        first, second = second, first
    return (first, second, swapped) if _broadcasts(context, first, second, shape) else None


def _broadcasts(
    context: LoweringContext, a: QuantizedTensor, b: QuantizedTensor, shape: tuple[int, ...]
) -> bool:
    """Whether `a` has the result's `shape`, and `b` has it or broadcasts over rows or columns."""
    other = context.builder.types[b.name].shape
    return (
        context.builder.types[a.name].shape == shape
        and len(other) == len(shape)
        and other[:2] == shape[:2]
        and all(have in (1, want) for have, want in zip(other, shape, strict=True))
    )


def _operand(
    context: LoweringContext, tensor: str, shape: tuple[int, ...], *, wide: bool
) -> QuantizedTensor | None:
    """The integer tensor behind an operand; a constant is repeated over images and channels."""
    x = context.resolve(tensor, wide=wide)
    if x is not None:
        return x
    found = _constant(context, tensor)
    if found is None or (found[1].wide and not wide):
        return None
    values, q = found
    values = values.reshape((1,) * (len(shape) - values.ndim) + values.shape)
    values = np.broadcast_to(values, shape[:2] + values.shape[2:])
    name = context.builder.fresh_name(f"{tensor}.{values.dtype.name}")
    context.builder.constant(name, values)
    return QuantizedTensor(name, q.scale, q.zero_point, q.wide)


def _constant(context: LoweringContext, tensor: str) -> tuple[Array, Quantization] | None:
    """A constant's integers and their quantization: one that was quantized, or one number."""
    graph = context.graph
    if graph.is_constant(tensor) and graph.constant(tensor).size == 1:
        # A single number is exactly its sign times a scale.
        value = graph.constant(tensor).astype(np.float64)
        scale = abs(float(value.reshape(()))) or 1.0
        return np.sign(value).astype(np.int8), Quantization(scale, 0)
    producer = graph.producers.get(tensor)
    if producer is None or producer.op != "dequantize" or not graph.is_constant(producer.inputs[0]):
        return None
    values, scale_array, zero_point = (graph.constant(name) for name in producer.inputs)
    if scale_array.size != 1 or values.dtype.name not in ("int8", "uint8", "int16"):
        return None
    if values.dtype.name == "int16":
        wide = Quantization(float(scale_array.reshape(())), 0, wide=True).unbounded
        return None if zero_point.any() else (values, wide)
    offset = 128 if values.dtype.name == "uint8" else 0
    integers = (values.astype(np.int16) - offset).astype(np.int8)
    zero = int(zero_point.reshape(())) - offset
    return integers, Quantization(float(scale_array.reshape(())), zero)


RULES: Mapping[str, Rule] = {
    "add": _lower_add,
    "dequantize": _lower_dequantize,
    "leaky_relu": _lower_leaky_relu,
    "maximum": _lower_maximum,
    "mul": _lower_mul,
    "sub": _lower_sub,
}
