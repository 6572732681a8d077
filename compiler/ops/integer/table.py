"""The table of integer operators that processors compute."""

from collections.abc import Mapping

from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.ops.integer import convolution, elementwise, movement, pooling
from daedal.compiler.ops.integer.operation import IntegerLowering

__all__ = ["LOWERINGS", "lacks"]

LOWERINGS: Mapping[str, IntegerLowering] = {
    **convolution.LOWERINGS,
    **elementwise.LOWERINGS,
    **movement.LOWERINGS,
    **pooling.LOWERINGS,
}
"""By operator."""


def lacks(graph: Graph, node: Node) -> str:
    """Why processors do not compute an integer node: a clause; empty where they do."""
    lowering = LOWERINGS.get(node.op)
    if lowering is None:
        return f"processors have no operator {node.op}"
    return lowering.lacks(graph, node)
