"""HardSwish as integer operators: x times a gate, which is a linear function clipped to bounds."""

from collections.abc import Mapping

import numpy as np

from daedal.compiler.graph.graph import Array, AttrValue, Node
from daedal.compiler.graph.passes.lowering.lowering_context import LoweringContext, Rule
from daedal.compiler.graph.passes.lowering.requantization import (
    FACTOR_BITS,
    Quantization,
    make_params,
)
from daedal.isa import numerics

__all__ = ["RULES"]

_GATE = Quantization(1 / 255, -128)
"""The gate lies between 0 and 1; both are exact."""

_FARTHEST = 1.25
"""How far a result may lie from the real one, in steps: then it is at most 1 from the rounded one
in any arithmetic whose own error is below a quarter of a step."""

_VALUES = np.arange(-128, 128)


def _lower_hard_swish(
    context: LoweringContext, node: Node, q: Quantization, output: str
) -> str | None:
    """``x * clip(x / 6 + 1 / 2, 0, 1)`` as a `q_leaky_relu` with one slope, and a `q_mul`.

    The gate is rounded to 8 bits. All values of `x` are tried. None if a result would be too far
    from the exact one, which happens when the result's steps are much finer than those of `x`; and
    for another operator of ONNX that the graph has none for.

    Source: ONNX HardSwish-14.
    """
    x = context.resolve(node.inputs[0]) if node.attrs["op_type"] == "HardSwish" else None
    if x is None:
        return None
    line = _line(x.scale / 6 / _GATE.scale, 0.5 / _GATE.scale)
    if line is None:
        return None
    factor, row = line
    ratio = x.scale * _GATE.scale / q.scale
    rows = make_params(node, [0], [ratio], context.multiplier_bits, context.accumulator_bits)
    centred = _VALUES - x.zero_point
    gate = _requantize(centred * factor, row, _GATE)
    found = _requantize(centred * (gate - _GATE.zero_point), rows[0], q)
    reals = x.scale * centred
    real = reals * np.clip(reals / 6 + 0.5, 0, 1) / q.scale + q.zero_point
    if np.abs(found - np.clip(real, q.low, q.high)).max() > _FARTHEST:
        return None
    gate_name = context.builder.fresh_name(f"{output}.gate")
    attrs: dict[str, AttrValue] = {
        "zero_point_x": x.zero_point,
        "multiplier_positive": factor,
        "multiplier_negative": factor,
        **_GATE.attrs,
    }
    params = context.define_params(gate_name, row[None])
    context.builder.add("q_leaky_relu", [x.name, params], attrs, output=gate_name, name=node.name)
    attrs = {"zero_point_a": x.zero_point, "zero_point_b": _GATE.zero_point, **q.attrs}
    operands = [x.name, gate_name, context.define_params(output, rows)]
    return context.builder.add("q_mul", operands, attrs, output=output, name=node.name)


def _line(slope: float, offset: float) -> tuple[int, Array] | None:
    """A factor and [bias, multiplier, shift] for ``slope * v + offset``; None if the sum of bias
    and product would not fit 32 bits."""
    try:
        factor, shift = numerics.quantize_multiplier(slope, FACTOR_BITS)
    except ValueError:
        return None
    bias = round(offset * 2**shift)
    fits = bias < 1 << 30
    return (factor, np.array([bias, 1, shift], dtype=np.int64)) if fits else None


def _requantize(acc: Array, row: Array, q: Quantization) -> Array:
    bias, multiplier, shift = row
    result = numerics.requantize(acc, bias, multiplier, shift, q.zero_point, q.low, q.high)
    return result.astype(np.int64)


RULES: Mapping[str, Rule] = {
    "onnx": _lower_hard_swish,
}
