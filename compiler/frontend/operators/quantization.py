"""QuantizeLinear and DequantizeLinear."""

from collections.abc import Mapping

import numpy as np
import onnx

from daedal.common.errors import UnsupportedError
from daedal.compiler.frontend.context import ImportContext
from daedal.compiler.frontend.node import Array, OnnxNode, element_type_name
from daedal.compiler.frontend.operators.record import FOLDED, ImportedOperator

__all__ = ["OPERATORS"]

_INTEGERS: Mapping[int, str] = {
    onnx.TensorProto.INT8: "int8",
    onnx.TensorProto.UINT8: "uint8",
    onnx.TensorProto.INT16: "int16",
    onnx.TensorProto.INT32: "int32",
}


def import_quantize(context: ImportContext, node: OnnxNode) -> None:
    """QuantizeLinear-10, -13 and later ones without blocks; per tensor or per channel."""
    _import(context, node, "quantize", "uint8")


def import_dequantize(context: ImportContext, node: OnnxNode) -> None:
    """DequantizeLinear-10, -13 and later ones without blocks; per tensor or per channel."""
    _import(context, node, "dequantize", context.operand_type(node, 0).dtype)


def _import(context: ImportContext, node: OnnxNode, op: str, default_dtype: str) -> None:
    # `saturate` and `precision` concern 8-bit floats; `output_dtype` is the zero point's type.
    node.expect(block_size=0, saturate=1, precision=0)
    output_dtype = node.integer("output_dtype", 0)
    narrow = context.narrow.get(node.input(2) or "")
    if op == "quantize" and narrow is not None:
        raise _refused(node, narrow.data_type)
    x = context.operand(node, 0)
    rank = context.builder.types[x].rank
    axis = node.integer("axis", 1)
    scale = context.required_constant(node, 1)
    zero_point = (
        np.zeros(scale.shape, dtype=_zero_type(node, output_dtype, default_dtype))
        if node.input(2) is None
        else context.required_constant(node, 2)
    )
    if rank and not -rank <= axis < rank:
        # Per-tensor parameters ignore the axis, whose default need not exist.
        if scale.size > 1:
            raise node.damaged(f"axis must lie in {rank} dimensions, not {axis}")
        axis = 0
    if op == "dequantize" and np.any(scale == 0):
        x, scale = _alive(context, node, scale, zero_point, axis)
    if not np.all(np.isfinite(scale)) or np.any(scale <= 0):
        raise node.refuse("scales must be finite and positive", "quantize the model again")
    operands = [
        x,
        _parameter(context, node, 1, "scale", scale),
        _parameter(context, node, 2, "zero_point", zero_point),
    ]
    context.emit(node, op, operands, axis=axis % rank if rank else 0)


def _zero_type(node: OnnxNode, output_dtype: int, default: str) -> str:
    """The type of a zero point that is not given."""
    if not output_dtype:
        return default
    if output_dtype not in _INTEGERS:
        raise _refused(node, output_dtype)
    return _INTEGERS[output_dtype]


def _refused(node: OnnxNode, kind: int) -> UnsupportedError:
    return node.refuse(
        f"quantized elements must be one of {', '.join(_INTEGERS.values())}, not "
        f"{element_type_name(kind)}",
        "quantize the model to 8 bits",
    )


def _alive(
    context: ImportContext, node: OnnxNode, scale: Array, zero_point: Array, axis: int
) -> tuple[str, Array]:
    """Constant integers, and scales that are not 0: a scale of 0 belongs to a dead channel, whose
    integers become the zero point.

    The largest scale replaces it, in biases, whose scales are products, as in weights.
    """
    integers = context.required_constant(node, 0)
    dead = scale == 0
    if scale.size > 1 and (integers.ndim == 0 or integers.shape[axis] != scale.size):
        raise node.damaged(f"scales must be one for each index of axis {axis}")
    if scale.ndim > 1 or zero_point.shape != scale.shape:
        raise node.refuse("scales and zero points must be vectors of one length", "repair them")
    shape = [-1 if dim == axis % integers.ndim else 1 for dim in range(integers.ndim)]
    along = shape if scale.size > 1 else [1] * integers.ndim
    zeros = np.broadcast_to(zero_point, scale.shape).reshape(along)
    kept = np.where(dead.reshape(along), zeros, integers).astype(integers.dtype)
    largest = scale.max()
    replaced = np.where(dead, largest if largest > 0 else 1, scale).astype(scale.dtype)
    return context.add_constant(f"{node.outputs[0]}.alive", kept), replaced


def _parameter(context: ImportContext, node: OnnxNode, index: int, role: str, value: Array) -> str:
    """The operand for a scale or zero point; one value becomes a scalar whatever its shape."""
    if value.size == 1 and value.shape != ():
        return context.add_constant(f"{node.outputs[0]}.{role}", value.reshape(()))
    if value is not context.constant_value(node.input(index)):
        return context.add_constant(f"{node.outputs[0]}.{role}", value)
    return context.operand(node, index)


OPERATORS: Mapping[str, ImportedOperator] = {
    "DequantizeLinear": ImportedOperator(
        import_dequantize, FOLDED, "constant scales, per tensor or per channel"
    ),
    "QuantizeLinear": ImportedOperator(
        import_quantize, FOLDED, "constant scales, per tensor or per channel"
    ),
}
