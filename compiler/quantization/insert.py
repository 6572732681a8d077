"""Inserts quantize and dequantize nodes around all nodes to be computed on integers (QDQ)."""

from collections.abc import Mapping

import numpy as np

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.quantization.calibration.ranges import Range
from daedal.compiler.quantization.operators import LAYERS, PAIRS, channel_axis
from daedal.compiler.quantization.plan import Plan
from daedal.compiler.quantization.streams import Streams
from daedal.compiler.quantization.weights import quantize_layer
from daedal.compiler.quantization.widths import reads_wide

__all__ = ["insert_qdq", "narrow_quantization"]


def insert_qdq(
    graph: Graph,
    plan: Plan,
    ranges: Mapping[str, Range],
    streams: Streams,
    narrow: Mapping[str, tuple[Array, Array]] | None = None,
) -> Graph:
    """Quantize activations, weights, biases and other constants of the nodes in `plan`.

    `ranges` holds the ranges of the groups' representatives, `streams` the scales and bounds of
    residual streams, `narrow` weights of 4 bits and their scales, by result of their layer. A
    tensor ``t`` is quantized as ``t_q`` and read as ``t_dq``. An output of the model keeps its
    name; its unquantized form is ``t_raw``.

    Before::

        t = conv2d(x, w, b) ...
        y = relu(t)

    After::

        x_q = quantize(x, x_scale, x_zero_point) axis=0
        x_dq = dequantize(x_q, x_scale, x_zero_point) axis=0
        t = conv2d(x_dq, w_dq, b_dq) ...        # w_dq, b_dq: of constants
        y = relu(t)
        y_q = quantize(y, y_scale, y_zero_point) axis=0
        y_dq = dequantize(y_q, y_scale, y_zero_point) axis=0
    """
    return _Insertion(graph, plan, ranges, streams, narrow or {}).run()


def narrow_quantization(
    plan: Plan, ranges: Mapping[str, Range], name: str
) -> tuple[np.float32, np.int8]:
    """Scale and zero point with which a quantized activation is read in 8 bits."""
    group = plan.groups[name]
    chosen = ranges[group]
    if group in plan.symmetric:
        return chosen.symmetric_quantization()
    return chosen.quantization()


class _Insertion:
    """One run: the new graph so far, and the names under which quantized tensors are read."""

    def __init__(
        self,
        graph: Graph,
        plan: Plan,
        ranges: Mapping[str, Range],
        streams: Streams,
        narrow: Mapping[str, tuple[Array, Array]],
    ) -> None:
        self._graph = graph
        self._new = GraphBuilder(graph.name, graph)
        self._plan = plan
        self._ranges = ranges
        self._streams = streams
        self._narrow_weights = narrow
        self._dequantized: dict[str, str] = {}
        self._narrowed: dict[str, str] = {}
        self._parameters: dict[tuple[str, bool], tuple[str, str]] = {}

    def run(self) -> Graph:
        self._new.copy_inputs()
        for name in self._graph.inputs:
            if name in self._plan.groups:
                self._quantize(name, name)
        for node in self._graph.nodes:
            if node.output in self._plan.computed:
                self._compute(node)
            else:
                self._keep(node)
        return self._new.finish(self._graph.outputs)

    def _keep(self, node: Node) -> None:
        """Keep a float node; it reads dequantized tensors if integers compute them, else floats."""
        self._new.copy_node(
            node,
            [
                self._dequantized.get(name, name) if name in self._plan.computed else name
                for name in node.inputs
            ],
        )
        if node.output in self._plan.groups:
            self._quantize(node.output, node.output)

    def _compute(self, node: Node) -> None:
        takes_wide = reads_wide(self._graph, node, self._plan.functions)
        inputs = [self._operand(node, name, takes_wide) for name in node.inputs]
        if node.op in LAYERS and self._graph.is_constant(node.inputs[1]):
            inputs[1:] = self._layer_constants(node)
        name = node.output
        is_output = name in self._plan.groups and name in self._graph.outputs
        raw = self._new.fresh_name(f"{name}_raw") if is_output else name
        self._new.add(node.op, inputs, node.attrs, output=raw, name=node.name, note=node.note)
        if name in self._plan.groups:
            self._quantize(name, raw)

    def _operand(self, node: Node, name: str, takes_wide: bool) -> str:
        """The name under which a node that integers compute reads the tensor `name`."""
        if name in self._plan.groups:
            narrows = self._plan.is_wide(name) and not takes_wide
            return self._narrow(name) if narrows else self._dequantized[name]
        elementwise = node.op in PAIRS and node.output not in self._plan.unquantized
        if elementwise and self._graph.is_constant(name):
            return self._elementwise_constant(name, node.output)
        return name

    def _quantize(self, name: str, raw: str) -> None:
        """Quantize the tensor `raw`, to be read under another name."""
        group = self._plan.groups[name]
        parameters = self._activation_parameters(group, group in self._plan.wide)
        bounds = self._streams.bounds_of(name, group)
        if bounds is not None:
            low, high = map(float, bounds)
            clipped = self._new.fresh_name(f"{name}_clipped")
            raw = self._new.add("clip", [raw], {"low": low, "high": high}, output=clipped)
        # A float tensor that is an output keeps its name; else the dequantized one takes it.
        read = self._new.fresh_name(f"{name}_dq") if self._new.is_defined(name) else name
        self._dequantized[name] = self._round(raw, parameters, f"{name}_q", read)

    def _round(self, name: str, parameters: tuple[str, str], quantized: str, read: str) -> str:
        """Quantize a tensor as `quantized`, and dequantize it as `read`."""
        integers = self._new.add_fresh("quantize", [name, *parameters], {"axis": 0}, base=quantized)
        return self._new.add("dequantize", [integers, *parameters], {"axis": 0}, output=read)

    def _narrow(self, name: str) -> str:
        """The dequantized form in 8 bits of a tensor that has 16."""
        if name not in self._narrowed:
            parameters = self._activation_parameters(self._plan.groups[name], wide=False)
            read = self._new.fresh_name(f"{name}_narrow_dq")
            wide = self._dequantized[name]
            self._narrowed[name] = self._round(wide, parameters, f"{name}_narrow_q", read)
        return self._narrowed[name]

    def _activation_parameters(self, group: str, wide: bool) -> tuple[str, str]:
        """Constants of scale and zero point, defined once per group and width."""
        if (group, wide) not in self._parameters:
            values = (
                self._wide_parameters(group)
                if wide
                else narrow_quantization(self._plan, self._ranges, group)
            )
            scale, zero_point = (
                self._new.fresh_constant(f"{group}_{role}", np.asarray(value))
                for role, value in zip(("scale", "zero_point"), values, strict=True)
            )
            self._parameters[group, wide] = scale, zero_point
        return self._parameters[group, wide]

    def _wide_parameters(self, group: str) -> tuple[np.float32, np.int16]:
        scale, zero_point = self._ranges[group].wide_quantization()
        return self._streams.scales.get(group, scale), zero_point

    def _elementwise_constant(self, name: str, result: str) -> str:
        """Quantize a constant operand of an elementwise operator; a single number stays float.

        That of a sum in 16 bits has 16, too, and a mask has the scale of the masked scores, so
        that what it masks saturates.
        """
        value = self._graph.constant(name)
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

    def _layer_constants(self, node: Node) -> list[str]:
        """Weights and bias of a layer as dequantized integers."""
        input_scale, _ = narrow_quantization(self._plan, self._ranges, node.inputs[0])
        name, *bias = node.inputs[1:]
        axis = channel_axis(node)
        reals = self._graph.constant(bias[0]).astype(np.float64) if bias else None
        narrow = self._narrow_weights.get(node.output)
        layer = quantize_layer(name, self._graph.constant(name), axis, reals, input_scale, narrow)
        found = [self._dequantize(name, layer.weights, layer.scales, np.int8(0), axis)]
        if layer.bias is not None:
            scales = layer.bias_scales
            found.append(self._dequantize(bias[0], layer.bias, scales, np.int32(0)))
        return found

    def _dequantize(
        self, name: str, values: Array, scale: Array, zero_point: np.integer, axis: int = 0
    ) -> str:
        """A dequantized constant."""
        zeros = np.full(scale.shape, zero_point, dtype=values.dtype)
        operands = [
            self._new.fresh_constant(f"{name}_{role}", array)
            for role, array in (("q", values), ("scale", scale), ("zero_point", zeros))
        ]
        return self._new.add_fresh("dequantize", operands, {"axis": axis}, base=f"{name}_dq")
