"""QuantizeLinear and DequantizeLinear."""

import numpy as np

from daedal.compiler.frontend.context import ImportContext
from daedal.compiler.frontend.node import Array, OnnxNode

__all__ = ["import_dequantize", "import_quantize"]


def import_quantize(context: ImportContext, node: OnnxNode) -> None:
    """QuantizeLinear-10, -13 and later ones without blocks; per tensor or per channel."""
    _import(context, node, "quantize", "uint8")


def import_dequantize(context: ImportContext, node: OnnxNode) -> None:
    """DequantizeLinear-10, -13 and later ones without blocks; per tensor or per channel."""
    _import(context, node, "dequantize", context.operand_type(node, 0).dtype)


def _import(context: ImportContext, node: OnnxNode, op: str, default_dtype: str) -> None:
    # `saturate` and `precision` concern 8-bit floats; `output_dtype` repeats the zero point's type.
    node.expect(block_size=0, saturate=1, precision=0)
    output_dtype = node.integer("output_dtype", 0)
    x = context.operand(node, 0)
    rank = context.builder.types[x].rank
    axis = node.integer("axis", 1)
    scale = context.required_constant(node, 1)
    if not np.all(np.isfinite(scale)) or np.any(scale <= 0):
        raise node.damaged("scales must be finite and positive", "quantize the model again")
    zero_point = (
        np.zeros(scale.shape, dtype=default_dtype)
        if node.input(2) is None
        else context.required_constant(node, 2)
    )
    if output_dtype and node.input(2) is None:
        raise node.damaged("output_dtype needs a zero point", "add a zero point of that type")
    if rank and not -rank <= axis < rank:
        # Per-tensor parameters ignore the axis, whose default need not exist.
        if scale.size > 1:
            raise node.damaged(f"axis must lie in {rank} dimensions, not {axis}")
        axis = 0
    operands = [
        x,
        _parameter(context, node, 1, "scale", scale),
        _parameter(context, node, 2, "zero_point", zero_point),
    ]
    context.emit(node, op, operands, axis=axis % rank if rank else 0)


def _parameter(context: ImportContext, node: OnnxNode, index: int, role: str, value: Array) -> str:
    """The operand for a scale or zero point; one value becomes a scalar whatever its shape."""
    if value.size == 1 and value.shape != ():
        return context.add_constant(f"{node.outputs[0]}.{role}", value.reshape(()))
    if node.input(index) is None:
        return context.add_constant(f"{node.outputs[0]}.{role}", value)
    return context.operand(node, index)
