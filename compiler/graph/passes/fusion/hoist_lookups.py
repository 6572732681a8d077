"""Moves tables before changes of shape and order, to the operators whose results they look up."""

from daedal.compiler.graph.dataflow import sole_producer
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.looked_up import Q_REQUANTIZE_LOOKUP
from daedal.compiler.graph.rewrite import Rewriter, rewrite
from daedal.compiler.graph.views import VIEWS

__all__ = ["hoist_lookups"]


def hoist_lookups(graph: Graph) -> Graph:
    """Look elements up before they are moved, if nothing else reads what is moved. Exact.

    A matrix product over tokens is a convolution and moves behind it (`lower_qdq`); the table then
    follows the convolution directly, and becomes part of it (`fuse_lookups`).

    Before::

        b = transpose(a) order=(0, 2, 1)
        c = q_requantize_lookup(b, t, p) ...

    After::

        c.hoisted = q_requantize_lookup(a, t, p) ...
        c = transpose(c.hoisted) order=(0, 2, 1)
    """
    return rewrite(graph, {Q_REQUANTIZE_LOOKUP.name: _hoist})


def _hoist(graph: Rewriter, node: Node) -> None:
    source, *others = node.inputs
    moves: list[Node] = []
    while (move := sole_producer(graph, source, VIEWS)) is not None:
        moves.insert(0, move)
        source = move.inputs[0]
    # Moves of an input of the graph stay: nothing computes what they move.
    if not moves or source not in graph.producers:
        return
    base = f"{node.output}.hoisted"
    name = graph.add_fresh(node.op, [source, *others], node.attrs, base=base, name=node.name)
    for move in moves[:-1]:
        base = f"{move.output}.hoisted"
        name = graph.add_fresh(move.op, [name], move.attrs, base=base, name=move.name)
    last = moves[-1]
    graph.add(last.op, [name], last.attrs, output=node.output, name=last.name)
