"""Post-training quantization to int8, written as QuantizeLinear and DequantizeLinear pairs.

`real = scale * (q - zero_point)`. Activations are int8 with one scale and zero point per tensor,
calibrated by minimum and maximum; weights are int8 with one scale per output channel and zero
point 0; biases are int32 at the scale of the accumulator.

Source: Jacob et al., "Quantization and Training of Neural Networks for Efficient
Integer-Arithmetic-Only Inference" (2018), section 2; ONNX QuantizeLinear and DequantizeLinear,
opset 13.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper

from examples.digits.export import OUTPUT, make_model, operator_attributes
from examples.digits.network import INPUT, NETWORK, Layer, forward

__all__ = ["ActivationScale", "calibrate", "export_qdq", "quantize_bias", "quantize_weight"]

Array = npt.NDArray[np.float64]
# Their outputs hold values of their inputs only, so rescaling could but lose.
KEEP_SCALE = ("MaxPool", "Flatten")


@dataclass(frozen=True)
class ActivationScale:
    """Scale and zero point of an int8 activation tensor."""

    scale: np.float32
    zero_point: np.int8

    @classmethod
    def from_range(cls, low: float, high: float) -> Self:
        """The finest that holds low..high and, exactly, 0, which padding and ReLU need."""
        low, high = min(low, 0.0), max(high, 0.0)
        scale = np.float32((high - low) / 255)
        return cls(scale, np.int8(np.rint(-128 - low / float(scale))))


def calibrate(
    params: Mapping[str, Array], images: npt.NDArray[np.float32]
) -> dict[str, ActivationScale]:
    """Scales of the input and of every layer's output, from the values `images` give rise to."""
    values = forward(params, images)
    scales = {INPUT: ActivationScale.from_range(values[INPUT].min(), values[INPUT].max())}
    for layer in NETWORK:
        value = values[layer.name]
        scales[layer.name] = (
            scales[layer.inputs[0]]
            if layer.op in KEEP_SCALE
            else ActivationScale.from_range(value.min(), value.max())
        )
    return scales


def quantize_weight(weight: Array) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """Weights (M, ...) as int8 in -127..127, and their scales, (M,)."""
    flat = weight.reshape(len(weight), -1)
    # The smallest normal number stands in for a channel of zeros, whose scale is arbitrary.
    largest = np.maximum(np.abs(flat).max(axis=1), np.finfo(np.float32).tiny * 127)
    scale = (largest / 127).astype(np.float32)
    quantized = np.clip(np.rint(flat / scale[:, np.newaxis].astype(np.float64)), -127, 127)
    return quantized.astype(np.int8).reshape(weight.shape), scale


def quantize_bias(bias: Array, scale: npt.NDArray[np.float32]) -> npt.NDArray[np.int32]:
    """A bias (M,) as int32 at `scale`, (M,)."""
    limits = np.iinfo(np.int32)
    return np.clip(np.rint(bias / scale.astype(np.float64)), limits.min, limits.max).astype(
        np.int32
    )


class _QdqWriter:
    """Collects nodes and constants; tensors `<name>`, `<name>_q` (int8) and `<name>_dq`."""

    def __init__(self, scales: Mapping[str, ActivationScale]) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, npt.NDArray[Any]] = {}
        self._scales = scales

    def node(self, op: str, inputs: list[str], output: str, **attributes: Any) -> None:
        self.nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))

    def activation(self, name: str) -> None:
        """Quantize and dequantize the tensor `name`."""
        grid = [f"{name}_scale", f"{name}_zp"]
        self.constants[grid[0]] = np.array(self._scales[name].scale)
        self.constants[grid[1]] = np.array(self._scales[name].zero_point)
        self.node("QuantizeLinear", [name, *grid], f"{name}_q")
        self.node("DequantizeLinear", [f"{name}_q", *grid], f"{name}_dq")

    def parameter(
        self, name: str, value: npt.NDArray[np.signedinteger], scale: npt.NDArray[np.float32]
    ) -> None:
        """Hold an integer parameter with a scale per output channel, and dequantize it."""
        names = [f"{name}_q", f"{name}_scale", f"{name}_zp"]
        self.constants |= zip(names, (value, scale, np.zeros(len(scale), value.dtype)), strict=True)
        self.node("DequantizeLinear", names, f"{name}_dq", axis=0)

    def layer(self, layer: Layer, params: Mapping[str, Array]) -> None:
        """One layer with its parameters, its ReLU and the pair after it."""
        inputs = [f"{name}_dq" for name in layer.inputs]
        if layer.weight_shape:
            weight, bias = f"{layer.name}_w", f"{layer.name}_b"
            quantized, scale = quantize_weight(params[f"{layer.name}.weight"])
            accumulator_scale = self._scales[layer.inputs[0]].scale * scale
            self.parameter(weight, quantized, scale)
            self.parameter(
                bias,
                quantize_bias(params[f"{layer.name}.bias"], accumulator_scale),
                accumulator_scale,
            )
            inputs += [f"{weight}_dq", f"{bias}_dq"]
        output = f"{layer.name}_linear" if layer.relu else layer.name
        self.node(layer.op, inputs, output, **operator_attributes(layer))
        if layer.relu:
            self.node("Relu", [output], layer.name)
        self.activation(layer.name)


def export_qdq(
    params: Mapping[str, Array], scales: Mapping[str, ActivationScale]
) -> onnx.ModelProto:
    """The int8 network: float images in, float probabilities out, pairs around every operator."""
    writer = _QdqWriter(scales)
    writer.activation(INPUT)
    for layer in NETWORK:
        writer.layer(layer, params)
    writer.node("Softmax", [f"{NETWORK[-1].name}_dq"], OUTPUT, axis=-1)
    return make_model("digits_qdq", writer.nodes, writer.constants)
