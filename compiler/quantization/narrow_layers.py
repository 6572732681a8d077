"""Chooses layers whose weights get 4 bits, and rounds these weights.

Input: a float model with its plan, and samples. Output: for each chosen layer, weights in steps,
which machines with `units.narrow_weights` read in half the time.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from daedal.compiler.graph.dataflow import first_behind
from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.quantization.calibration.float_runner import OpenModel, make_runner
from daedal.compiler.quantization.error_feedback import round_with_feedback
from daedal.compiler.quantization.float_model import FloatModel
from daedal.compiler.quantization.input_moments import input_moments, num_inputs
from daedal.compiler.quantization.operators import LAYERS, channel_axis
from daedal.compiler.quantization.plan import Plan
from daedal.compiler.quantization.weights import bias_fits
from daedal.isa.scratchpad import NARROW_WEIGHT_BITS

__all__ = ["WEIGHT_ERROR", "LayerWeights", "narrow_layers"]

WEIGHT_ERROR = 0.06
"""The default limit of what weights of 4 bits change of a model's outputs. Of stories260k, it lets
64 % of the weights have 4 bits, and the perplexity is 1.074 times the float model's; 0.07: 72 % and
1.087; no limit: 1.110; weights of 8 bits: 1.016 (bench/networks/transformers.py --step decode)."""

_MOST_INPUTS = 4608
"""Of an output: layers with more keep 8 bits. Time grows with the cube of this number."""

_SAMPLES = 32
"""On which outputs are compared; enough for ratios of whole tensors."""

_MOVES = ("pad", "reshape", "transpose")

NarrowWeights = tuple[Array, Array]
"""Weights in steps, int8 in the layout of the layer, and scales, (output channels,) float32."""


@dataclass(frozen=True)
class LayerWeights:
    """A layer with weights, and what 4 bits would change.

    Attributes
    ----------
    tensor : the layer's result.
    weights : their name.
    count : how many there are.
    error : what 4 bits in this layer alone change of the model's outputs, root of mean squares over
        their deviation; None if that was not measured.
    narrow : weights of 4 bits and their scales; None: they keep 8 bits.
    """

    tensor: str
    weights: str
    count: int
    error: float | None = None
    narrow: NarrowWeights | None = None

    @property
    def bits(self) -> int:
        """Of the weights."""
        return 8 if self.narrow is None else NARROW_WEIGHT_BITS

    @property
    def saved_bytes(self) -> int:
        """Against weights of 8 bits."""
        return self.count * (8 - self.bits) // 8


def narrow_layers(
    model: FloatModel,
    plan: Plan,
    samples: Sequence[Mapping[str, Array]],
    limit: float,
    open_model: OpenModel,
    scale_of: Callable[[str], np.float32],
) -> list[LayerWeights]:
    """All layers with constant weights, in the model's order.

    `scale_of` gives the scale of an activation, in steps of which with those of the weights the
    bias has to fit 32 bits; a layer whose bias does not keeps 8 bits.

    Each is rounded alone, and the model's outputs are compared. Layers get 4 bits, those with the
    least change for a weight first, as long as the changes of all of them, which are taken for
    independent, stay within `limit`. A convolution of an input keeps 8 bits, as it has few weights,
    and so do a transposed one and one with very many inputs.
    """
    graph = model.graph
    layers = [
        node
        for node in graph.nodes
        if node.output in plan.computed and node.op in LAYERS and graph.is_constant(node.inputs[1])
    ]
    rounded: dict[str, NarrowWeights] = {}
    candidates = [node for node in layers if _may_be_narrow(graph, node)]
    for node, moments in input_moments(model, candidates, samples, open_model):
        narrow = _rounded(graph, node, moments)
        bias = graph.constant(node.inputs[2]) if len(node.inputs) > 2 else None
        if bias_fits(bias, narrow[1], scale_of(node.inputs[0])):
            rounded[node.output] = narrow
    candidates = [node for node in candidates if node.output in rounded]
    errors = _errors(model, candidates, rounded, samples, open_model)
    found = [
        LayerWeights(
            node.output,
            node.inputs[1],
            graph.constant(node.inputs[1]).size,
            errors.get(node.output),
            rounded.get(node.output),
        )
        for node in layers
    ]
    chosen = _chosen(found, limit)
    return [item if item.tensor in chosen else replace(item, narrow=None) for item in found]


def _may_be_narrow(graph: Graph, node: Node) -> bool:
    if node.op == "conv_transpose2d" or num_inputs(graph, node) > _MOST_INPUTS:
        return False
    source = first_behind(graph, node.inputs[0], _MOVES)
    finite = bool(np.isfinite(graph.constant(node.inputs[1])).all())
    return finite and (node.op == "dense" or source not in graph.inputs)


def _rounded(graph: Graph, node: Node, moments: Array) -> NarrowWeights:
    """The weights of a layer in steps; groups of channels have moments of their own."""
    axis = channel_axis(node)
    matrix = np.moveaxis(graph.constant(node.inputs[1]), axis, 0)
    parts = [
        round_with_feedback(part.reshape(len(part), -1), moment, NARROW_WEIGHT_BITS)
        for part, moment in zip(np.split(matrix, len(moments)), moments, strict=True)
    ]
    steps = np.concatenate([item.steps for item in parts]).reshape(matrix.shape)
    scales = np.concatenate([item.scales for item in parts]).astype(np.float32)
    return np.ascontiguousarray(np.moveaxis(steps, 0, axis)), scales


def _errors(
    model: FloatModel,
    layers: Sequence[Node],
    rounded: Mapping[str, NarrowWeights],
    samples: Sequence[Mapping[str, Array]],
    open_model: OpenModel,
) -> dict[str, float]:
    """By layer, `LayerWeights.error`."""
    some = samples[:: -(-len(samples) // _SAMPLES)]
    names = [name for name in model.outputs if model.graph.types[name].dtype == "float32"]

    def outputs(graph: Graph) -> Iterator[Array]:
        run = make_runner(model.with_graph(graph), names, open_model)
        by_sample = [run(feeds) for feeds in some]
        for name in names:
            yield np.stack([values[name] for values in by_sample]).astype(np.float64)

    expected = list(outputs(model.graph))
    found = {}
    for node in layers:
        changed = outputs(_with_weights(model.graph, node, rounded[node.output]))
        shares = [
            np.mean(np.square(ours - own)) / max(float(own.var()), 1e-30)
            for ours, own in zip(changed, expected, strict=True)
        ]
        found[node.output] = float(np.mean(shares)) ** 0.5
    return found


def _with_weights(graph: Graph, layer: Node, narrow: NarrowWeights) -> Graph:
    """The graph whose `layer` reads rounded weights."""
    steps, scales = narrow
    shape = [-1 if axis == channel_axis(layer) else 1 for axis in range(steps.ndim)]
    values = (steps * scales.reshape(shape)).astype(np.float32)
    x, old, *others = layer.inputs
    name = f"{old}.rounded"
    while name in graph.types:
        name += "_"
    nodes = (
        replace(node, inputs=(x, name, *others)) if node is layer else node for node in graph.nodes
    )
    return replace(
        graph,
        nodes=tuple(nodes),
        constants={**graph.constants, name: values},
        types={**graph.types, name: graph.types[old]},
    )


def _chosen(layers: Sequence[LayerWeights], limit: float) -> set[str]:
    """The layers that get 4 bits."""
    measured = [(item.error**2, item) for item in layers if item.error is not None]
    chosen: set[str] = set()
    total = 0.0
    for noise, item in sorted(measured, key=lambda pair: pair[0] / pair[1].count):
        if total + noise <= limit**2:
            total += noise
            chosen.add(item.tensor)
    return chosen
