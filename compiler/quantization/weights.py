"""Quantizes the weights and the bias of a layer."""

from dataclasses import dataclass

import numpy as np

from daedal.common.errors import ModelError
from daedal.compiler.graph.graph import Array

__all__ = ["QuantizedLayer", "bias_fits", "quantize_layer"]

_LARGEST = 127
"""Weights are symmetric: -128 is not used."""

_BIAS_LIMIT = 1 << 28
"""Of a bias, in steps of its accumulator: leaves room for the sum of products."""

_SMALLEST_SCALE = 2.0**-40


@dataclass(frozen=True)
class QuantizedLayer:
    """Quantized weights and bias of a layer.

    Parameters
    ----------
    weights : int8, zero point 0, in the layout of the layer.
    scales : (output channels,) float32.
    bias : (output channels,) int32 in steps of `bias_scales`, or None.
    bias_scales : (output channels,) float32, the input's scale times that of the weights.
    """

    weights: Array
    scales: Array
    bias: Array | None
    bias_scales: Array


def quantize_layer(
    name: str,
    weights: Array,
    axis: int,
    bias: Array | None,
    input_scale: np.float32,
    narrow: tuple[Array, Array] | None = None,
) -> QuantizedLayer:
    """Quantize per output channel, along `axis` of the weights.

    A channel with small weights and a large bias gets a scale at which its bias still fits.
    `narrow` are weights that are in steps already, and their scales, at which all biases fit
    (`bias_fits`).

    Raises
    ------
    ModelError
        For weights that are not finite.
    """
    wide = weights.astype(np.float64)
    if not np.isfinite(wide).all() or (bias is not None and not np.isfinite(bias).all()):
        raise ModelError(
            f"weights must be finite, and those of {name!r} have NaN or infinite values; train or "
            "export the model again"
        )
    if narrow is not None:
        steps, scales = narrow
        assert bias_fits(bias, scales, input_scale), "such layers keep 8 bits"
        return _layer(steps, scales, bias, input_scale)
    others = tuple(index for index in range(wide.ndim) if index != axis)
    scales = np.abs(wide).max(axis=others, initial=0) / _LARGEST
    if bias is not None:
        scales = np.maximum(scales, np.abs(bias) / (float(input_scale) * _BIAS_LIMIT))
    scales = np.maximum(scales, _SMALLEST_SCALE).astype(np.float32)
    shape = [-1 if index == axis else 1 for index in range(wide.ndim)]
    steps = np.rint(wide / scales.astype(np.float64).reshape(shape))
    return _layer(np.clip(steps, -_LARGEST, _LARGEST), scales, bias, input_scale)


def bias_fits(bias: Array | None, scales: Array, input_scale: np.float32) -> bool:
    """Whether a bias fits its steps with weights of these scales."""
    return bias is None or bool(np.all(np.abs(bias) <= input_scale * scales * _BIAS_LIMIT))


def _layer(
    steps: Array, scales: Array, bias: Array | None, input_scale: np.float32
) -> QuantizedLayer:
    bias_scales = input_scale * scales
    return QuantizedLayer(
        weights=steps.astype(np.int8),
        scales=scales,
        bias=None if bias is None else np.rint(bias / bias_scales).astype(np.int32),
        bias_scales=bias_scales,
    )
