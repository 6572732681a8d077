"""Float layer norm and RMS norm over the last axis, as imported from ONNX."""

import numpy as np

from daedal.compiler.graph.graph import Node
from daedal.compiler.graph.ops.onnx_form import OnnxForm
from daedal.compiler.graph.ops.registry import (
    Array,
    Arrays,
    Attrs,
    Types,
    define,
    number,
    require,
    require_float,
)
from daedal.compiler.graph.types import TensorType

__all__: list[str] = []


def _infer(operands: Types, attrs: Attrs) -> TensorType:
    require_float(operands)
    x = operands[0]
    require(x.rank >= 1, "a norm must have an axis to go over, not a single number")
    for parameter in operands[1:]:
        require(
            parameter.shape == x.shape[-1:],
            f"parameters of a norm must have one value per channel ({x.shape[-1]}), not shape "
            f"{list(parameter.shape)}; repair the model",
        )
    return x


def _divided(x: Array, epsilon: float) -> Array:
    """`x` over its root mean square, over the last axis."""
    squares = np.mean(np.square(x), axis=-1, keepdims=True)
    return np.asarray(x / np.sqrt(squares + epsilon))


def _evaluate_layer_norm(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias, over the last axis."""
    x, scale, *bias = (array.astype(np.float64) for array in arrays)
    centered = x - x.mean(axis=-1, keepdims=True)
    result = _divided(centered, number(attrs, "epsilon")) * scale
    return np.asarray(result + bias[0] if bias else result, dtype=np.float32)


def _evaluate_rms_norm(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """x / sqrt(mean(x * x) + epsilon) * scale, over the last axis."""
    x, scale = (array.astype(np.float64) for array in arrays)
    return np.asarray(_divided(x, number(attrs, "epsilon")) * scale, dtype=np.float32)


def _write_layer_norm(form: OnnxForm, node: Node) -> None:
    form.write(node, "LayerNormalization", axis=-1, epsilon=number(node.attrs, "epsilon"))


def _write_rms_norm(form: OnnxForm, node: Node) -> None:
    """ONNX has the operator from opset 23 on; older ones write it out."""
    x, scale = node.inputs
    epsilon = number(node.attrs, "epsilon")
    if form.opset >= 23:
        form.write(node, "RMSNormalization", axis=-1, epsilon=epsilon)
        return
    squares = form.add("Mul", [x, x])
    mean = form.add("ReduceMean", [squares, form.constant([-1], "int64")])
    total = form.add("Add", [mean, form.constant(epsilon, "float32")])
    form.write(node, "Mul", [form.add("Div", [x, form.add("Sqrt", [total])]), scale])


define(
    "layer_norm",
    ("x", "scale", "bias"),
    {"epsilon": "float"},
    _infer,
    _evaluate_layer_norm,
    num_optional=1,
    onnx=_write_layer_norm,
)
define(
    "rms_norm",
    ("x", "scale"),
    {"epsilon": "float"},
    _infer,
    _evaluate_rms_norm,
    onnx=_write_rms_norm,
)
