"""Moves ReLU and Clip across operators that only move elements, next to the layer before them."""

from collections import deque

import onnx

from daedal.compiler.quantization.network import Network
from daedal.compiler.quantization.onnx_operators import moved_operands

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

    There they cost nothing, because they become bounds of the layer. The layer's quantization then
    covers only the range within the bounds.

    Before::

        t = MaxPool(Conv(x, W))
        y = Relu(t)

    After::

        t = Relu(Conv(x, W))
        y = MaxPool(t)
    """
    hoisting = _Hoisting(network)
    bounds = deque(node for node in network.nodes if node.op_type in _BOUNDS)
    while bounds:
        bounds.extend(hoisting.hoist(bounds.popleft()))
    hoisting.finish()


class _Hoisting:
    """Current producers and users, and the nodes added and removed, by identity."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._producers = network.producers()
        self._users = network.users()
        self._before: dict[int, list[onnx.NodeProto]] = {}
        self._gone: set[int] = set()

    def hoist(self, bound: onnx.NodeProto) -> list[onnx.NodeProto]:
        """Move a node before its predecessor; return the nodes that replace it."""
        mover = self._producers.get(bound.input[0])
        if mover is None or not self._may_pass(mover):
            return []
        hoisted = [self._add_before(mover, index, bound) for index in moved_operands(mover)]
        self._gone.add(id(bound))
        del self._producers[mover.output[0]], self._users[mover.output[0]]
        mover.output[0] = bound.output[0]
        self._producers[mover.output[0]] = mover
        return hoisted

    def finish(self) -> None:
        """Write the nodes back to the network in their new order."""
        self._network.nodes = [
            node
            for original in self._network.nodes
            for node in (*self._before.get(id(original), ()), original)
            if id(node) not in self._gone
        ]

    def _may_pass(self, mover: onnx.NodeProto) -> bool:
        """Whether nothing else reads the result of `mover` or its operands."""
        if mover.op_type not in _COMMUTING or any(mover.output[1:]):
            return False
        names = [mover.output[0], *(mover.input[index] for index in moved_operands(mover))]
        return all(
            self._network.has_one_user(name, self._users) and name not in self._network.constants
            for name in names
        )

    def _add_before(
        self, mover: onnx.NodeProto, index: int, bound: onnx.NodeProto
    ) -> onnx.NodeProto:
        """A copy of `bound` for one operand of `mover`."""
        source = mover.input[index]
        node = onnx.NodeProto()
        node.CopyFrom(bound)
        node.input[0] = source
        node.name = node.output[0] = self._network.fresh(f"{source}_{bound.op_type.lower()}")
        mover.input[index] = node.output[0]
        self._users[source], self._users[node.output[0]] = [node], [mover]
        self._producers[node.output[0]] = node
        self._before.setdefault(id(mover), []).append(node)
        return node
