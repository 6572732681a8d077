"""The layers of a graph of integer operators, in blocked layouts, as the compiler lowers them."""

from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.registry import get_op
from daedal.compiler.graph.passes import moves_to_views
from daedal.compiler.pipeline import graph_passes
from daedal.isa.variant import Variant

__all__ = ["blocked_layers"]


def blocked_layers(graph: Graph, variant: Variant) -> tuple[Graph, list[Node]]:
    """The graph after the compiler's passes, and the nodes that the accelerator computes."""
    every = graph_passes(variant, (), ())
    for _, run_pass in every[[name for name, _ in every].index("lower_qdq") + 1 :]:
        graph = run_pass(graph)
    graph = moves_to_views(graph)
    kinds = [(node, get_op(node.op)) for node in graph.nodes]
    return graph, [node for node, kind in kinds if kind.on_accelerator and not kind.is_view]
