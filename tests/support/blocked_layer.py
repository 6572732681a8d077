"""The layers of a graph of integer operators, in blocked layouts, as the compiler lowers them."""

from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.registry import get_op, runs_on
from daedal.compiler.graph.passes import moves_to_views
from daedal.compiler.pipeline import graph_passes
from daedal.compiler.targets.names import ACCELERATOR
from daedal.isa.variant import Variant

__all__ = ["blocked_layers"]


def blocked_layers(graph: Graph, variant: Variant) -> tuple[Graph, list[Node]]:
    """The graph after the compiler's passes, and the nodes that the accelerator computes."""
    every = graph_passes(variant, (), ())
    for _, run_pass in every[[name for name, _ in every].index("lower_qdq") + 1 :]:
        graph = run_pass(graph)
    graph = moves_to_views(graph)
    nodes = [node for node in graph.nodes if runs_on(node.op, ACCELERATOR)]
    return graph, [node for node in nodes if not get_op(node.op).is_view]
