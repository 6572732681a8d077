"""Joins what follows a table with the table."""

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.ops.integer import has_wide_result
from daedal.compiler.graph.ops.looked_up import Q_REQUANTIZE_LOOKUP
from daedal.compiler.graph.ops.registry import get_op
from daedal.compiler.graph.passes.simplify.eliminate_dead_code import eliminate_dead_code
from daedal.compiler.graph.types import TensorType

__all__ = ["compose_tables"]

_LOOKUP = Q_REQUANTIZE_LOOKUP.name

_FUNCTIONS = ("q_leaky_relu", "q_max_requantized", "q_requantize", _LOOKUP)
"""Operators that are a function of each element of their first operand; the others are constant.
Tables have no wide results."""


def compose_tables(graph: Graph) -> Graph:
    """Compute a function of a table's result by the table, if nothing else reads the result. Exact.

    Before::

        y = q_requantize_lookup(x, t, p) ...
        z = q_requantize(y, q) ...

    After::

        const t.z: int8[256]:table
        z = q_requantize_lookup(x, t.z, p) ...
    """
    builder = GraphBuilder(graph.name, graph)
    builder.copy_inputs()
    lookups: dict[str, Node] = {}
    for node in graph.nodes:
        composes = node.op in _FUNCTIONS and not has_wide_result(node.attrs)
        first = lookups.get(node.inputs[0]) if composes else None
        if first is None or not _is_only_reader(graph, node):
            builder.copy_node(node)
            if node.op == _LOOKUP:
                lookups[node.output] = node
            continue
        x, table, params = first.inputs
        kind, entries = builder.types[table], builder.value(table)
        assert entries is not None, "a table is a constant"
        values = kind.layout.pack(_applied(graph, node, kind.layout.unpack(entries)))
        name = builder.constant(builder.fresh_name(f"{table}.{node.output}"), values, kind)
        inputs = (x, name, params)
        builder.add(_LOOKUP, inputs, first.attrs, output=node.output, name=node.name)
        lookups[node.output] = Node(_LOOKUP, inputs, (node.output,), first.attrs)
    return eliminate_dead_code(builder.finish(graph.outputs))


def _is_only_reader(graph: Graph, node: Node) -> bool:
    """Whether nothing else reads the first operand of `node`."""
    name = node.inputs[0]
    return name not in graph.outputs and graph.users[name] == (node,)


def _applied(graph: Graph, node: Node, entries: Array) -> Array:
    """The results of `node` for these values of its first operand."""
    others = node.inputs[1:]
    arrays = [entries, *(graph.constant(name) for name in others)]
    types = [TensorType(entries.shape, entries.dtype.name), *(graph.types[n] for n in others)]
    return get_op(node.op).evaluate(arrays, types, node.attrs)
