"""Slices of a tensor that, side by side, are all of it in another order."""

import numpy as np
import onnx
from onnx import helper

from daedal.compiler.frontend.attributes import attribute
from daedal.compiler.graph.views import turned_axes
from daedal.compiler.quantization.network import Array, Network
from daedal.compiler.quantization.rewrites.edges import Edges

__all__ = ["turn_joined_slices"]


def turn_joined_slices(network: Network) -> None:
    """Write slices of every n-th place that are joined again as a transpose.

    Before, patch merging of Swin, x is (1, H, W, C)::

        Concat(x[:, ::2, ::2], x[:, 1::2, ::2], x[:, ::2, 1::2], x[:, 1::2, 1::2])

    After::

        Reshape(Transpose(Reshape(x)))      # of (1, H / 2, 2, W / 2, 2, C)
    """
    edges = Edges.of(network)
    network.rewrite(lambda node: _turned(edges, node))
    network.drop_unread()


def _turned(edges: Edges, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
    """The transpose that a Concat of slices is, or None."""
    output = node.output[0]
    producers = [edges.producers.get(name) for name in node.input]
    if node.op_type != "Concat" or any(
        item is None or item.op_type != "Slice" for item in producers
    ):
        return None
    parts = [_source_of(edges, name) for name in node.input]
    roots = {root for root, _ in parts}
    if len(roots) != 1 or any(places is None for _, places in parts):
        return None
    places = np.concatenate(
        [item for _, item in parts if item is not None], attribute(node, "axis", 0)
    )
    (root,) = roots
    found = turned_axes(places)
    if found is None:
        return None
    (shape, order), network = found, edges.network
    split, turned = (network.fresh(f"{output}_{role}") for role in ("split", "turned"))
    return [
        network.reshape(root, shape, split),
        helper.make_node("Transpose", [split], [turned], name=turned, perm=order),
        network.reshape(turned, places.shape, output, node.name),
    ]


def _source_of(edges: Edges, name: str) -> tuple[str, Array | None]:
    """The tensor that slices, one behind the other, take `name` from, and which of its elements, as
    flat indices; None for these where they are not known."""
    node = edges.producer(name, "Slice")
    if node is None:
        shape = edges.shapes.get(name)
        return name, None if shape is None else np.arange(np.prod(shape)).reshape(shape)
    root, places = _source_of(edges, node.input[0])
    values = [edges.network.constants.get(operand) for operand in node.input[1:]]
    if places is None or any(value is None for value in values):
        return root, None
    begins, ends, *rest = (value.tolist() for value in values if value is not None)
    axes = rest[0] if rest else range(len(begins))
    steps = rest[1] if len(rest) > 1 else [1] * len(begins)
    parts = [slice(None)] * places.ndim
    for axis, *bounds in zip(axes, begins, ends, steps, strict=True):
        parts[axis] = slice(*bounds)
    return root, places[tuple(parts)]
