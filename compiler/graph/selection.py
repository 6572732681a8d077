"""Products with matrices of zeros and ones, which change no value: selections of channels by 1x1
convolutions, and transposes.

Only a matrix product can move data between lanes, so this is how the accelerator permutes channels.
"""

from math import prod

import numpy as np

from daedal.compiler.graph.dataflow import Dataflow
from daedal.compiler.graph.editor import GraphEditor
from daedal.compiler.graph.graph import Array, AttrValue, Node
from daedal.compiler.graph.ops.integer import IDENTITY, UNCHANGED
from daedal.compiler.graph.ops.registry import whole

__all__ = ["PIXELWISE", "add_selection", "add_transposed", "is_pixelwise", "selected_channels"]

PIXELWISE: dict[str, AttrValue] = {
    "strides": (1, 1),
    "pads": (0, 0, 0, 0),
    "dilations": (1, 1),
    "groups": 1,
    "pad_value": 0,
}
"""Attributes of a window that takes every pixel by itself, or the whole map at once."""


def is_pixelwise(graph: Dataflow, node: Node) -> bool:
    """Whether the node is a dense 1x1 convolution, which takes every pixel by itself."""
    if node.op != "q_conv2d" or graph.types[node.inputs[1]].shape[2:] != (1, 1):
        return False
    same = (name for name in PIXELWISE if name != "pad_value")
    return all(node.attrs[name] == PIXELWISE[name] for name in same)


def add_selection(
    builder: GraphEditor, x: str, channels: Array, output: str, name: str = "", value: int = 0
) -> str:
    """Add `output`, whose channel i is channel ``channels[i]`` of the map `x`, or holds `value`
    where that is -1."""
    matrix = np.zeros((len(channels), builder.types[x].shape[1], 1, 1), dtype=np.int8)
    used = channels >= 0
    matrix[used, channels[used]] = 1
    weights = builder.fresh_constant(f"{output}.select", matrix)
    rows = np.repeat(IDENTITY, len(channels), axis=0)
    rows[~used, 0] = value
    params = builder.fresh_constant(f"{output}.params", rows)
    attrs = {**PIXELWISE, **UNCHANGED}
    return builder.add("q_conv2d", [x, weights, params], attrs, output=output, name=name)


def add_transposed(builder: GraphEditor, x: str, identity: Array, base: str) -> str:
    """Add the map `x` with its pixels as channels. Pixel m of the result is row m of `identity`,
    int8 (images, channels, rows), times the channels of each pixel."""
    attrs: dict[str, AttrValue] = {
        "zero_point_a": 0,
        "zero_point_b": 0,
        "columns": prod(builder.types[x].shape[2:]),
        **UNCHANGED,
    }
    operands = [
        builder.fresh_constant(f"{base}.identity", identity[..., None]),
        x,
        builder.fresh_constant(f"{base}.factor", np.zeros(1, dtype=np.int8)),
        builder.fresh_constant(f"{base}.params", IDENTITY),
    ]
    return builder.add_fresh("q_matmul", operands, attrs, base=f"{base}.turned")


def selected_channels(graph: Dataflow, node: Node) -> Array | None:
    """The operand's channel that each channel of a selection copies; None for other nodes."""
    if node.op != "q_conv2d" or whole(node.attrs, "groups") != 1:
        return None
    weights = graph.constant(node.inputs[1])
    if weights.shape[2:] != (1, 1) or np.count_nonzero(weights) != len(weights):
        return None
    fixed = {**PIXELWISE, **UNCHANGED, "pad_value": node.attrs["pad_value"]}
    if dict(node.attrs) != fixed or not np.all(graph.constant(node.inputs[2]) == IDENTITY):
        return None
    matrix = weights[:, :, 0, 0]
    channels = matrix.argmax(axis=1)
    ones = matrix[np.arange(len(matrix)), channels]
    return channels if np.all(ones == 1) else None
