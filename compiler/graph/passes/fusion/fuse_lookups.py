"""Makes a table part of the operator before it."""

from daedal.compiler.graph.dataflow import sole_producer
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.looked_up import LOOKED_UP, Q_REQUANTIZE_LOOKUP
from daedal.compiler.graph.passes.value_ranges import changes_nothing
from daedal.compiler.graph.rewrite import Rewriter, rewrite

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
    return rewrite(graph, {Q_REQUANTIZE_LOOKUP.name: _fuse})


def _fuse(graph: Rewriter, node: Node) -> None:
    name, table, params = node.inputs
    producer = sole_producer(graph, name, LOOKED_UP)
    if producer is None or not changes_nothing(graph, name, graph.constant(params), node.attrs):
        return
    *data, own = producer.inputs
    graph.add(
        LOOKED_UP[producer.op].name,
        [*data, table, own],
        producer.attrs,
        output=node.output,
        name=node.name or producer.name,
    )
