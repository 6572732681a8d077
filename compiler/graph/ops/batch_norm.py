"""Float batch normalization at inference, as imported from ONNX BatchNormalization."""

from collections.abc import Sequence

import numpy as np

from daedal.compiler.graph.ops.onnx_form import simple
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

__all__ = ["gain_and_offset"]


def gain_and_offset(parameters: Sequence[Array], epsilon: float) -> tuple[Array, Array]:
    """The factor and the offset of a batch norm per channel; (C,) float64 each.

    Parameters
    ----------
    parameters : scale, bias, mean and variance, (C,) each.
    """
    scale, bias, mean, variance = (item.astype(np.float64) for item in parameters)
    gain = scale / np.sqrt(variance + epsilon)
    return gain, bias - mean * gain


def _infer(operands: Types, attrs: Attrs) -> TensorType:
    require_float(operands)
    x = operands[0]
    require(x.rank >= 2, f"a batch norm must have channels on axis 1, not {x}; repair the model")
    for parameter in operands[1:]:
        require(
            parameter.shape == (x.shape[1],),
            f"parameters of a batch norm must have one value per channel ({x.shape[1]}), not shape "
            f"{list(parameter.shape)}; repair the model",
        )
    return x


def _evaluate(arrays: Arrays, types: Types, attrs: Attrs) -> Array:
    """Float batch norm at inference, channels on axis 1."""
    x = arrays[0]
    shape = (-1, *(1,) * (x.ndim - 2))
    gain, offset = gain_and_offset(arrays[1:], number(attrs, "epsilon"))
    result: Array = x * gain.reshape(shape) + offset.reshape(shape)
    return result.astype(np.float32)


define(
    "batch_norm",
    ("x", "scale", "bias", "mean", "variance"),
    {"epsilon": "float"},
    _infer,
    _evaluate,
    onnx=simple("BatchNormalization", epsilon="epsilon"),
)
