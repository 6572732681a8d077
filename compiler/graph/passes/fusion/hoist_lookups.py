"""Moves tables before changes of shape and order, to the operators whose results they look up."""

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.looked_up import Q_REQUANTIZE_LOOKUP

__all__ = ["hoist_lookups"]

_MOVES = ("reshape", "transpose")


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
    moves = {node.output: _moves_before(graph, node) for node in graph.nodes}
    gone = {move.output for chain in moves.values() for move in chain}
    builder = GraphBuilder(graph.name, graph)
    builder.copy_inputs()
    for node in graph.nodes:
        chain = moves[node.output]
        if node.output in gone:
            continue
        if not chain:
            builder.copy_node(node)
            continue
        operands = [chain[0].inputs[0], *node.inputs[1:]]
        name = builder.fresh_name(f"{node.output}.hoisted")
        name = builder.add(node.op, operands, node.attrs, output=name, name=node.name)
        for move in chain[:-1]:
            output = builder.fresh_name(f"{move.output}.hoisted")
            name = builder.add(move.op, [name], move.attrs, output=output, name=move.name)
        last = chain[-1]
        builder.add(last.op, [name], last.attrs, output=node.output, name=last.name)
    return builder.finish(graph.outputs)


def _moves_before(graph: Graph, node: Node) -> list[Node]:
    """The moves whose result only the table `node` reads, in order."""
    chain: list[Node] = []
    reader = node
    while node.op == Q_REQUANTIZE_LOOKUP.name:
        name = reader.inputs[0]
        move = graph.producers.get(name)
        alone = name not in graph.outputs and graph.users[name] == (reader,)
        if move is None or move.op not in _MOVES or not alone:
            break
        chain.insert(0, move)
        reader = move
    # Moves of an input of the graph stay: nothing computes what they move.
    return chain if chain and chain[0].inputs[0] in graph.producers else []
