"""Which inputs of a layer go together: sums of products of two of them, over samples.

Input: layers of a float model. Output: for each, a matrix for every group of channels, which tells
what a change of its weights does to its products.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.ops.registry import ints, whole
from daedal.compiler.graph.ops.windows import sliding_windows
from daedal.compiler.quantization.calibration.float_runner import OpenModel, evaluate, make_runner
from daedal.compiler.quantization.float_model import FloatModel
from daedal.compiler.quantization.operators import channel_axis

__all__ = ["input_moments", "num_inputs"]

_MOST_NUMBERS = 1 << 25
"""That are collected in one pass over the samples; 256 MiB."""

_PLACES = 1024
"""Of a map, or tokens, that count of each sample, about."""


def input_moments(
    model: FloatModel,
    layers: Sequence[Node],
    samples: Sequence[Mapping[str, Array]],
    open_model: OpenModel = evaluate,
) -> Iterator[tuple[Node, Array]]:
    """Each layer, a convolution or dense one, with its (groups, inputs, inputs) float64."""
    for some in _passes(model.graph, layers):
        names = list(dict.fromkeys(node.inputs[0] for node in some))
        run = make_runner(model, names, open_model)
        found = [np.zeros(()) for _ in some]
        for feeds in samples:
            values = run(feeds)
            for number, node in enumerate(some):
                rows = _rows(model.graph, node, values[node.inputs[0]])
                found[number] = found[number] + np.matmul(rows.swapaxes(1, 2), rows)
        yield from zip(some, found, strict=True)


def num_inputs(graph: Graph, layer: Node) -> int:
    """That an output of a layer has."""
    kind = graph.types[layer.inputs[1]]
    return kind.num_elements // kind.shape[channel_axis(layer)]


def _groups(layer: Node) -> int:
    return whole(layer.attrs, "groups") if layer.op == "conv2d" else 1


def _passes(graph: Graph, layers: Sequence[Node]) -> Iterator[list[Node]]:
    """The layers in parts, of which each is observed in one pass over the samples."""
    some: list[Node] = []
    size = 0
    for node in layers:
        own = _groups(node) * num_inputs(graph, node) ** 2
        if some and size + own > _MOST_NUMBERS:
            yield some
            some, size = [], 0
        some.append(node)
        size += own
    if some:
        yield some


def _rows(graph: Graph, layer: Node, x: Array) -> Array:
    """(groups, places, inputs) float64: what is multiplied by the weights of an output."""
    x = x.astype(np.float64)
    if layer.op == "dense":
        rows = x.reshape(1, -1, x.shape[-1])
    else:
        kernel, groups = graph.types[layer.inputs[1]].shape[2:], _groups(layer)
        strides, pads, dilations = (
            ints(layer.attrs, name) for name in ("strides", "pads", "dilations")
        )
        windows = sliding_windows(x, kernel, strides, pads, dilations, 0)
        n, channels, height, width, *taps = windows.shape
        split = windows.reshape(n, groups, channels // groups, height, width, *taps)
        rows = split.transpose(1, 0, 3, 4, 2, 5, 6).reshape(groups, n * height * width, -1)
    return rows[:, :: max(1, rows.shape[1] // _PLACES)]
