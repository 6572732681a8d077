"""Makes a table part of the operator before it."""

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.looked_up import LOOKED_UP, Q_REQUANTIZE_LOOKUP
from daedal.compiler.graph.passes.value_ranges import changes_nothing

__all__ = ["fuse_lookups"]


def fuse_lookups(graph: Graph) -> Graph:
    """Look the result of an operator up where it is requantized, if nothing else reads it. Exact.

    The operator's REQUANTIZE becomes LOOKUP, which takes no more cycles.

    Before::

        y = q_conv2d(x, w, p) ...
        z = q_requantize_lookup(y, t, i) ...        # i leaves y as it is

    After::

        z = q_conv2d_lookup(x, w, t, p) ...
    """
    joined = {}
    for node in graph.nodes:
        producer = _producer(graph, node)
        if producer is not None:
            joined[node.output] = producer
    gone = {producer.output for producer in joined.values()}
    builder = GraphBuilder(graph.name, graph)
    builder.copy_inputs()
    for node in graph.nodes:
        producer = joined.get(node.output)
        if producer is not None:
            *data, params = producer.inputs
            builder.add(
                LOOKED_UP[producer.op].name,
                [*data, node.inputs[1], params],
                producer.attrs,
                output=node.output,
                name=node.name or producer.name,
            )
        elif node.output not in gone:
            builder.copy_node(node)
    return builder.finish(graph.outputs)


def _producer(graph: Graph, node: Node) -> Node | None:
    """The node that the table of `node` can be part of, or None."""
    if node.op != Q_REQUANTIZE_LOOKUP.name:
        return None
    name, _, params = node.inputs
    producer = graph.producers.get(name)
    if producer is None or producer.op not in LOOKED_UP:
        return None
    alone = name not in graph.outputs and graph.users[name] == (node,)
    unchanged = changes_nothing(graph, name, graph.constant(params), node.attrs)
    return producer if alone and unchanged else None
