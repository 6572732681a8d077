"""The table of the graph's operators that processors compute from the graph."""

from collections.abc import Mapping

from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.ops.graph import (
    convolution,
    elementwise,
    integer_convolution,
    integer_elementwise,
    integer_movement,
    integer_pooling,
    movement,
    pooling,
)
from daedal.compiler.ops.graph.operation import GraphLowering

__all__ = ["LOWERINGS", "lacks"]

LOWERINGS: Mapping[str, GraphLowering] = {
    **convolution.LOWERINGS,
    **elementwise.LOWERINGS,
    **integer_convolution.LOWERINGS,
    **integer_elementwise.LOWERINGS,
    **integer_movement.LOWERINGS,
    **integer_pooling.LOWERINGS,
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
