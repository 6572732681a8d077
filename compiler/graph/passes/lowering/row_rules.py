"""The lowering rules of `lower_qdq` for softmax, layer norm and RMS norm.

The axis becomes the channels of a map, whose pixels are the rows. A row's operand has 8 or 16 bits.
"""

from collections.abc import Mapping

import numpy as np

from daedal.common.errors import UnsupportedError
from daedal.compiler.graph.graph import Array, AttrValue, Node
from daedal.compiler.graph.ops.integer_rows import (
    NORM_ATTRS,
    NORM_TABLES,
    Q_LAYER_NORM,
    Q_RMS_NORM,
    Q_SOFTMAX,
    SOFTMAX_TABLES,
    norm_steps,
    step_rows,
)
from daedal.compiler.graph.ops.registry import ints, number
from daedal.compiler.graph.passes.lowering.derived_norms import derive_norm
from daedal.compiler.graph.passes.lowering.lowering_context import LoweringContext, Rule
from daedal.compiler.graph.passes.lowering.map_rows import over_last_axis
from daedal.compiler.graph.passes.lowering.quantized_weights import real_constant
from daedal.compiler.graph.passes.lowering.requantization import Quantization, QuantizedTensor
from daedal.compiler.integer.norms import Norm, NormParameters
from daedal.compiler.integer.softmax import Softmax
from daedal.isa.numerics import quantize_multiplier

__all__ = ["RULES"]


def _lower_softmax(
    context: LoweringContext, node: Node, q: Quantization, output: str
) -> str | None:
    """Softmax over the last axis.

    Before::

        s = dequantize(s_q, ss, 0)          # float32[1,2,50,50]
        p = softmax(s) axes=3
        p_q = quantize(p, sp, -128)

    After::

        s_q.map = reshape(transpose(reshape(s_q)))                  # int8[2,50,50,1]
        p_q.map = q_softmax(s_q.map, exp, bits, reciprocal, steps, params) ...
        p_q = reshape(transpose(reshape(p_q.map)))
    """
    found = _operand(context, node)
    if found is None or ints(node.attrs, "axes") != (len(_shape(context, node)) - 1,):
        return None
    x, bits = found
    width = context.multiplier_bits
    try:
        constants = Softmax.of(_shape(context, node)[-1], x.scale, bits, width)
        step = quantize_multiplier(Softmax.result_ratio(q.scale), width)
    except ValueError as error:
        raise UnsupportedError(f"{error} ({node}); quantize the model again") from error
    operands = _tables(context, output, {name: getattr(constants, name) for name in SOFTMAX_TABLES})
    steps = step_rows([constants.index], constants.bit_steps, [constants.mantissa])
    operands += [
        _constant(context, f"{output}.steps", steps),
        context.define_params(output, np.array([[0, *step]], dtype=np.int64)),
    ]
    attrs: dict[str, AttrValue] = {"sum_bits": constants.sum_bits, **q.attrs}
    return over_last_axis(context, node, Q_SOFTMAX.name, x.name, operands, attrs, output)


def _lower_layer_norm(
    context: LoweringContext, node: Node, q: Quantization, output: str
) -> str | None:
    """Layer norm over the last axis, as `_lower_softmax`."""
    return _lower_norm(context, node, q, output, centred=True)


def _lower_rms_norm(
    context: LoweringContext, node: Node, q: Quantization, output: str
) -> str | None:
    """RMS norm over the last axis, as `_lower_softmax`."""
    return _lower_norm(context, node, q, output, centred=False)


def _lower_norm(
    context: LoweringContext, node: Node, q: Quantization, output: str, centred: bool
) -> str | None:
    found = _operand(context, node)
    if found is None:
        return None
    derived = derive_norm(context, node, q, output)
    if derived is not None:
        return derived
    x, bits = found
    gain, *bias = (real_constant(context.graph, node, name) for name in node.inputs[1:])
    try:
        norm = NormParameters.of(
            gain,
            bias[0] if bias else np.zeros_like(gain),
            epsilon=number(node.attrs, "epsilon"),
            scale=x.scale,
            zero_point=x.zero_point,
            bits=bits,
            result_scale=q.scale,
            multiplier_bits=context.multiplier_bits,
            centred=centred,
        )
    except ValueError as error:
        raise UnsupportedError(f"{error} ({node}); quantize the model again") from error
    constants: Norm = norm.constants
    operands = _tables(context, output, {name: getattr(constants, name) for name in NORM_TABLES})
    operands += [
        _constant(context, f"{output}.steps", norm_steps(constants)),
        context.define_params(output, norm.params),
    ]
    if (norm.signs < 0).any():
        operands.append(_constant(context, f"{output}.signs", norm.signs.reshape(1, -1, 1, 1)))
    attrs: dict[str, AttrValue] = {
        **{name: getattr(constants, name.removesuffix("_x")) for name in NORM_ATTRS},
        **q.attrs,
    }
    op = Q_LAYER_NORM if centred else Q_RMS_NORM
    return over_last_axis(context, node, op.name, x.name, operands, attrs, output)


def _operand(context: LoweringContext, node: Node) -> tuple[QuantizedTensor, int] | None:
    """The quantized operand and its bits, if the variant computes on rows."""
    x = context.resolve(node.inputs[0], wide=True) if context.rows else None
    return None if x is None else (x, 16 if x.wide else 8)


def _shape(context: LoweringContext, node: Node) -> tuple[int, ...]:
    return context.graph.types[node.output].shape


def _constant(context: LoweringContext, name: str, array: Array) -> str:
    return context.builder.constant(context.builder.fresh_name(name), array)


def _tables(context: LoweringContext, output: str, tables: dict[str, Array]) -> list[str]:
    return [_constant(context, f"{output}.{name}", table) for name, table in tables.items()]


RULES: Mapping[str, Rule] = {
    "layer_norm": _lower_layer_norm,
    "rms_norm": _lower_rms_norm,
    "softmax": _lower_softmax,
}
