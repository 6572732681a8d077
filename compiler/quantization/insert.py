"""Inserts quantize and dequantize nodes around all nodes to be computed on integers (QDQ)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper

from daedal.compiler.quantization.calibration.ranges import Range
from daedal.compiler.quantization.network import Array, Network
from daedal.compiler.quantization.onnx_operators import channel_axis
from daedal.compiler.quantization.plan import Plan
from daedal.compiler.quantization.streams import Streams
from daedal.compiler.quantization.weights import quantize_layer
from daedal.compiler.quantization.widths import reads_wide

__all__ = ["insert_qdq"]

_LAYERS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
_ELEMENTWISE = ("Add", "Mul", "Sub")


def insert_qdq(network: Network, plan: Plan, ranges: Mapping[str, Range], streams: Streams) -> None:
    """Quantize activations, weights, biases and other constants of the nodes in `plan`.

    `ranges` holds the ranges of the groups' representatives, `streams` the scales and bounds of
    residual streams. A tensor ``t`` is quantized as ``t_q``
    and read as ``t_dq``. An output of the model keeps its name; its unquantized form is ``t_raw``.

    Before::

        y = Relu(Conv(x, W, B))

    After::

        x_q = QuantizeLinear(x);  x_dq = DequantizeLinear(x_q)
        y = Relu(Conv(x_dq, DequantizeLinear(W_q), DequantizeLinear(B_q)))
        y_q = QuantizeLinear(y);  y_dq = DequantizeLinear(y_q)
    """
    _Insertion(network, plan, ranges, streams).run()


class _Insertion:
    """One run: the nodes so far, and the names under which quantized tensors are read."""

    def __init__(
        self, network: Network, plan: Plan, ranges: Mapping[str, Range], streams: Streams
    ) -> None:
        self._network = network
        self._plan = plan
        self._ranges = ranges
        self._streams = streams
        self._nodes: list[onnx.NodeProto] = []
        self._dequantized: dict[str, str] = {}
        self._narrowed: dict[str, str] = {}
        self._parameters: dict[tuple[str, bool], tuple[str, str]] = {}

    def run(self) -> None:
        for item in self._network.inputs:
            if item.name in self._plan.groups:
                self._quantize(item.name, item.name)
        for node in self._network.nodes:
            if node.output[0] in self._plan.computed:
                self._compute(node)
            else:
                self._keep(node)
        self._network.nodes = self._nodes

    def _keep(self, node: onnx.NodeProto) -> None:
        """Keep a float node; it reads dequantized tensors if integers compute them, else floats."""
        for index, name in enumerate(node.input):
            if name in self._dequantized and name in self._plan.computed:
                node.input[index] = self._dequantized[name]
        self._nodes.append(node)
        for name in node.output:
            if name in self._plan.groups:
                self._quantize(name, name)

    def _compute(self, node: onnx.NodeProto) -> None:
        first = node.op_type in _LAYERS and node.input[0]
        takes_wide = reads_wide(self._network, node, self._plan.functions)
        for index, name in enumerate(node.input):
            if name in self._plan.groups:
                wide = self._plan.is_wide(name)
                node.input[index] = (
                    self._narrow(name) if wide and not takes_wide else self._dequantized[name]
                )
            elif (
                node.op_type in _ELEMENTWISE
                and name in self._network.constants
                and node.output[0] not in self._plan.unquantized
            ):
                node.input[index] = self._elementwise_constant(name, node.output[0])
        if first and node.input[1] in self._network.constants:
            self._quantize_layer(node, self._scale(first))
        self._nodes.append(node)
        if node.output[0] in self._plan.groups:
            self._quantize_result(node)

    def _quantize_result(self, node: onnx.NodeProto) -> None:
        raw = output = node.output[0]
        if output in self._network.output_names:
            raw = node.output[0] = self._network.fresh(f"{output}_raw")
        self._quantize(output, raw)

    def _quantize(self, name: str, raw: str) -> None:
        """Quantize the tensor `raw`, to be read under another name."""
        group = self._plan.groups[name]
        scale, zero_point = self._activation_parameters(group, group in self._plan.wide)
        quantized = self._network.fresh(f"{name}_q")
        dequantized = self._network.fresh(f"{name}_dq")
        # A float tensor that is an output keeps its name; else the dequantized one takes it.
        read = name if raw != name else dequantized
        bounds = self._streams.bounds_of(name, group)
        if bounds is not None:
            raw = self._clip(raw, bounds)
        self._add("QuantizeLinear", [raw, scale, zero_point], quantized, quantized)
        self._add("DequantizeLinear", [quantized, scale, zero_point], read, dequantized)
        self._dequantized[name] = read

    def _clip(self, name: str, bounds: tuple[np.float32, np.float32]) -> str:
        """The tensor `name` within bounds."""
        clipped = self._network.fresh(f"{name}_clipped")
        operands = [
            self._network.add_constant(f"{name}_{role}", np.asarray(bound))
            for role, bound in zip(("low", "high"), bounds, strict=True)
        ]
        self._add("Clip", [name, *operands], clipped, clipped)
        return clipped

    def _narrow(self, name: str) -> str:
        """The dequantized form in 8 bits of a tensor that has 16."""
        if name not in self._narrowed:
            parameters = self._activation_parameters(self._plan.groups[name], wide=False)
            quantized = self._network.fresh(f"{name}_narrow_q")
            dequantized = self._network.fresh(f"{name}_narrow_dq")
            operands = [self._dequantized[name], *parameters]
            self._add("QuantizeLinear", operands, quantized, quantized)
            self._add("DequantizeLinear", [quantized, *parameters], dequantized, dequantized)
            self._narrowed[name] = dequantized
        return self._narrowed[name]

    def _activation_parameters(self, group: str, wide: bool) -> tuple[str, str]:
        """Constants of scale and zero point, defined once per group and width."""
        if (group, wide) not in self._parameters:
            values = self._wide_parameters(group) if wide else self._narrow_parameters(group)
            scale, zero_point = (
                self._network.add_constant(f"{group}_{role}", np.asarray(value))
                for role, value in zip(("scale", "zero_point"), values, strict=True)
            )
            self._parameters[group, wide] = scale, zero_point
        return self._parameters[group, wide]

    def _wide_parameters(self, group: str) -> tuple[np.float32, np.int16]:
        scale, zero_point = self._ranges[group].wide_quantization()
        return self._streams.scales.get(group, scale), zero_point

    def _narrow_parameters(self, group: str) -> tuple[np.float32, np.int8]:
        chosen = self._ranges[group]
        if group in self._plan.symmetric:
            return chosen.symmetric_quantization()
        return chosen.quantization()

    def _scale(self, name: str) -> np.float32:
        return self._narrow_parameters(self._plan.groups[name])[0]

    def _elementwise_constant(self, name: str, result: str) -> str:
        """Quantize a constant operand of an elementwise operator; a single number stays float.

        That of a sum in 16 bits has 16, too, and a mask has the scale of the masked scores, so
        that what it masks saturates.
        """
        value = self._network.constants[name]
        if value.size == 1:
            return name
        if result in self._plan.groups and self._plan.is_wide(result):
            masks = {item.result for item in self._plan.masked}
            largest = float(np.abs(value).max())
            chosen = Range(-largest, largest)
            if result in masks:
                chosen = self._ranges[self._plan.groups[result]]
            step, zero = chosen.wide_quantization()
            step = self._streams.scales.get(name, step)
            steps = np.rint(value.astype(np.float64) / float(step))
            integers = np.clip(steps, -32767, 32767).astype(np.int16)
            return self._dequantize(name, integers, np.asarray(step), zero)
        low, high = float(value.min()), float(value.max())
        scale, zero_point = Range(min(low, 0.0), max(high, 0.0)).quantization()
        steps = np.rint(value.astype(np.float64) / float(scale)) + zero_point
        return self._dequantize(
            name, np.clip(steps, -128, 127).astype(np.int8), np.asarray(scale), zero_point
        )

    def _quantize_layer(self, node: onnx.NodeProto, input_scale: np.float32) -> None:
        """Replace weights and bias by dequantized integers."""
        name = node.input[1]
        weights = self._network.constants[name]
        axis = channel_axis(node)
        bias = None
        if len(node.input) > 2 and node.input[2]:
            value = self._network.constants[node.input[2]].astype(np.float64)
            bias = np.broadcast_to(value.ravel(), (weights.shape[axis],))
        layer = quantize_layer(name, weights, axis, bias, input_scale)
        node.input[1] = self._dequantize(name, layer.weights, layer.scales, np.int8(0), axis)
        if layer.bias is not None:
            base = node.input[2]
            node.input[2] = self._dequantize(base, layer.bias, layer.bias_scales, np.int32(0), 0)

    def _dequantize(
        self,
        name: str,
        values: Array,
        scale: Array,
        zero_point: np.integer,
        axis: int | None = None,
    ) -> str:
        """A dequantized constant."""
        zeros = np.full(scale.shape, zero_point, dtype=values.dtype)
        operands = [
            self._network.add_constant(f"{name}_{role}", array)
            for role, array in (("q", values), ("scale", scale), ("zero_point", zeros))
        ]
        attributes = {} if axis is None else {"axis": axis}
        output = self._network.fresh(f"{name}_dq")
        self._add("DequantizeLinear", operands, output, output, **attributes)
        return output

    def _add(
        self, op_type: str, operands: list[str], output: str, name: str, **attributes: Any
    ) -> None:
        self._nodes.append(helper.make_node(op_type, operands, [output], name=name, **attributes))
