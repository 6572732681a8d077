"""Float layer norm and RMS norm over the last axis, as imported from ONNX."""

from collections.abc import Sequence

import numpy as np

from daedal.compiler.graph.ops.registry import (
    Array,
    Attrs,
    OpDef,
    number,
    register,
    require,
    require_float,
)
from daedal.compiler.graph.types import TensorType

__all__ = ["LAYER_NORM", "RMS_NORM"]


def _infer(operands: Sequence[TensorType], attrs: Attrs) -> TensorType:
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


def _evaluate_layer_norm(
    arrays: Sequence[Array], types: Sequence[TensorType], attrs: Attrs
) -> Array:
    x, scale, *bias = (array.astype(np.float64) for array in arrays)
    centered = x - x.mean(axis=-1, keepdims=True)
    result = _divided(centered, number(attrs, "epsilon")) * scale
    return np.asarray(result + bias[0] if bias else result, dtype=np.float32)


def _evaluate_rms_norm(arrays: Sequence[Array], types: Sequence[TensorType], attrs: Attrs) -> Array:
    x, scale = (array.astype(np.float64) for array in arrays)
    return np.asarray(_divided(x, number(attrs, "epsilon")) * scale, dtype=np.float32)


LAYER_NORM = register(
    OpDef(
        "layer_norm",
        ("x", "scale", "bias"),
        {"epsilon": "float"},
        _infer,
        _evaluate_layer_norm,
        num_optional=1,
        doc="(x - mean) / sqrt(variance + epsilon) * scale + bias, over the last axis",
    )
)
RMS_NORM = register(
    OpDef(
        "rms_norm",
        ("x", "scale"),
        {"epsilon": "float"},
        _infer,
        _evaluate_rms_norm,
        doc="x / sqrt(mean(x * x) + epsilon) * scale, over the last axis",
    )
)
