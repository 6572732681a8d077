"""Removes nodes and constants that no output needs."""

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Graph

__all__ = ["eliminate_dead_code"]


def eliminate_dead_code(graph: Graph) -> Graph:
    """Keep only the nodes and constants that the outputs depend on, and every graph input.

    Before::

        y = relu(x)
        z = softmax(x) axes=1
        output y

    After::

        y = relu(x)
        output y
    """
    live = set(graph.outputs)
    for node in reversed(graph.nodes):
        if not live.isdisjoint(node.outputs):
            live.update(node.inputs)
    builder = GraphBuilder(graph.name, graph)
    builder.copy_inputs()
    for node in graph.nodes:
        if not live.isdisjoint(node.outputs):
            builder.copy_node(node)
    return builder.finish(graph.outputs)
