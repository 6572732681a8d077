"""Stores new rows of states as early as possible, so that what reads the states can be loaded."""

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Graph
from daedal.compiler.graph.ops.append import Q_APPEND

__all__ = ["appends_first"]


def appends_first(graph: Graph) -> Graph:
    """Move every `q_append`, with all that it needs, before what it does not need. Exact.

    Before::

        q = q_conv2d(x, wq, pq) ...
        s = q_matmul(q, keys, f, p) ...
        v = q_conv2d(x, wv, pv) ...
        values.new = q_append(values, v, i) ...

    After::

        v = q_conv2d(x, wv, pv) ...
        values.new = q_append(values, v, i) ...
        q = q_conv2d(x, wq, pq) ...
        s = q_matmul(q, keys, f, p) ...
    """
    appends = [node.output for node in graph.nodes if node.op == Q_APPEND.name]
    if not appends:
        return graph
    builder = GraphBuilder(graph.name, graph)
    builder.copy_inputs()
    for name in (*appends, ""):
        needed = _needed(graph, name) if name else graph.producers.keys()
        for node in graph.nodes:
            if node.output in needed and not builder.is_defined(node.output):
                builder.copy_node(node)
    return builder.finish(graph.outputs)


def _needed(graph: Graph, name: str) -> set[str]:
    """The tensors from which `name` is computed, and itself."""
    found: set[str] = set()
    stack = [name]
    while stack:
        name = stack.pop()
        if name not in found and name in graph.producers:
            found.add(name)
            stack.extend(graph.producers[name].inputs)
    return found
