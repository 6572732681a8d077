"""Operators between real and integer tensors, as imported from QuantizeLinear and its inverse."""

import numpy as np
import onnx

from daedal.compiler.graph.graph import Node
from daedal.compiler.graph.ops.onnx_form import OnnxForm, simple
from daedal.compiler.graph.ops.registry import Array, Arrays, Attrs, Types, define, require, whole
from daedal.compiler.graph.types import TensorType
from daedal.isa import numerics

__all__: list[str] = []


def _check_parameters(operands: Types, attrs: Attrs) -> None:
    x, scale, zero_point = operands
    axis = whole(attrs, "axis")
    require(
        scale.dtype == "float32",
        f"quantization scales must be float32, not {scale.dtype}; export the model in float32",
    )
    require(
        scale.shape == zero_point.shape,
        f"scale and zero point must have the same shape, not {list(scale.shape)} and "
        f"{list(zero_point.shape)}; repair the model",
    )
    if scale.num_elements > 1:
        require(
            scale.rank == 1 and 0 <= axis < x.rank and x.shape[axis] == scale.shape[0],
            f"a scale per channel must have one value per index of its axis, but {scale} meets "
            f"{x} on axis {axis}; repair the model",
        )


def _along_axis(parameter: Array, x: TensorType, attrs: Attrs) -> Array:
    """Shape a scalar or per-channel parameter so that it broadcasts over `x`."""
    if parameter.size == 1:
        return parameter.reshape(())
    shape = [1] * x.rank
    shape[whole(attrs, "axis")] = parameter.size
    return parameter.reshape(shape)


def _infer_quantize(operands: Types, attrs: Attrs) -> TensorType:
    _check_parameters(operands, attrs)
    x, _, zero_point = operands
    require(x.dtype == "float32", f"only float32 can be quantized, not {x.dtype}")
    require(
        zero_point.dtype in ("int8", "uint8", "int16", "int32"),
        f"the zero point of a quantization must be int8 or uint8, not {zero_point.dtype}; "
        "quantize the model to 8 bits",
    )
    return TensorType(x.shape, zero_point.dtype)


def _infer_dequantize(operands: Types, attrs: Attrs) -> TensorType:
    _check_parameters(operands, attrs)
    x, _, zero_point = operands
    require(
        x.dtype in ("int8", "uint8", "int16", "int32") and x.dtype == zero_point.dtype,
        f"tensor and zero point must have one integer type, not {x.dtype} and "
        f"{zero_point.dtype}; quantize the model to 8 bits",
    )
    return TensorType(x.shape, "float32")


def _infer_flip_sign(operands: Types, attrs: Attrs) -> TensorType:
    other = {"int8": "uint8", "uint8": "int8"}.get(operands[0].dtype)
    require(other is not None, f"only 8-bit tensors change signedness, not {operands[0]}")
    assert other is not None
    return TensorType(operands[0].shape, other)


def _evaluate_quantize(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """saturate(round(x / scale) + zero_point), in the zero point's type."""
    x, scale, zero_point = arrays
    return numerics.quantize(
        x,
        _along_axis(scale, types[0], attrs),
        _along_axis(zero_point, types[0], attrs),
        zero_point.dtype,
    )


def _evaluate_dequantize(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """(x - zero_point) * scale."""
    x, scale, zero_point = arrays
    return numerics.dequantize(
        x, _along_axis(scale, types[0], attrs), _along_axis(zero_point, types[0], attrs)
    )


def _evaluate_flip_sign(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """Uint8 to int8 by -128, int8 to uint8 by +128."""
    other = np.dtype(np.int8 if arrays[0].dtype == np.uint8 else np.uint8)
    return (arrays[0].view(np.uint8) ^ np.uint8(0x80)).view(other)


def _write_flip_sign(form: OnnxForm, node: Node) -> None:
    result = np.dtype(form.graph.types[node.output].dtype)
    wide = form.add("Cast", node.inputs, to=onnx.TensorProto.INT32)
    step = form.constant(128 if result == np.uint8 else -128, "int32")
    moved = form.add("Add", [wide, step])
    form.write(node, "Cast", [moved], to=onnx.helper.np_dtype_to_tensor_dtype(result))


_OPERANDS = ("x", "scale", "zero_point")

define(
    "quantize",
    _OPERANDS,
    {"axis": "int"},
    _infer_quantize,
    _evaluate_quantize,
    onnx=simple("QuantizeLinear", axis="axis"),
)
define(
    "dequantize",
    _OPERANDS,
    {"axis": "int"},
    _infer_dequantize,
    _evaluate_dequantize,
    onnx=simple("DequantizeLinear", axis="axis"),
)
define("flip_sign", ("x",), {}, _infer_flip_sign, _evaluate_flip_sign, onnx=_write_flip_sign)
