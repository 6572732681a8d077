"""Moves ReLU and Clip before operators that only move elements, next to the layer before them."""

from collections import deque

import onnx

from daedal.compiler.quantization.network import Network
from daedal.compiler.quantization.operators import moved_operands

__all__ = ["hoist_bounds"]

_BOUNDS = ("Clip", "Relu")

_COMMUTING = (
    "Concat",
    "Flatten",
    "GlobalMaxPool",
    "MaxPool",
    "Reshape",
    "Slice",
    "Squeeze",
    "Transpose",
    "Unsqueeze",
)
"""Operators that select elements and add none, so that bounds may be applied before."""


def hoist_bounds(network: Network) -> None:
    """Apply bounds before the elements are moved.

    There they cost nothing: they become bounds of the layer, and the steps of its quantization are
    spread over what the bounds leave.

    Before::

        t = MaxPool(Conv(x, W))
        y = Relu(t)

    After::

        t = Relu(Conv(x, W))
        y = MaxPool(t)
    """
    bounds = deque(node for node in network.nodes if node.op_type in _BOUNDS)
    while bounds:
        bounds.extend(_hoist(network, bounds.popleft()))


def _hoist(network: Network, bound: onnx.NodeProto) -> list[onnx.NodeProto]:
    """Move one node over the one before it; return the nodes in its place."""
    mover = network.producers().get(bound.input[0])
    if mover is None or mover.op_type not in _COMMUTING or any(mover.output[1:]):
        return []
    users = network.users()
    if not network.has_one_user(mover.output[0], users):
        return []
    indices = moved_operands(mover)
    if not all(
        network.has_one_user(mover.input[index], users)
        and mover.input[index] not in network.constants
        for index in indices
    ):
        return []
    hoisted = []
    for index in indices:
        node = onnx.NodeProto()
        node.CopyFrom(bound)
        node.input[0] = mover.input[index]
        node.output[0] = network.fresh(f"{mover.input[index]}_{bound.op_type.lower()}")
        node.name = node.output[0]
        mover.input[index] = node.output[0]
        hoisted.append(node)
    mover.output[0] = bound.output[0]
    network.nodes.remove(bound)
    place = network.nodes.index(mover)
    network.nodes[place:place] = hoisted
    return hoisted
