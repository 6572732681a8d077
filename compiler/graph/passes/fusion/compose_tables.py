"""Joins what follows a table with the table."""

from daedal.compiler.graph.dataflow import Dataflow, sole_producer
from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.ops.integer import has_wide_result
from daedal.compiler.graph.ops.looked_up import Q_REQUANTIZE_LOOKUP
from daedal.compiler.graph.ops.registry import get_op
from daedal.compiler.graph.rewrite import Rewriter, rewrite
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
    return rewrite(graph, dict.fromkeys(_FUNCTIONS, _compose))


def _compose(graph: Rewriter, node: Node) -> None:
    first = sole_producer(graph, node.inputs[0], (_LOOKUP,))
    if first is None or has_wide_result(node.attrs):
        return
    x, table, params = first.inputs
    kind = graph.types[table]
    entries = kind.layout.unpack(graph.constant(table))
    values = kind.layout.pack(_applied(graph, node, entries))
    name = graph.fresh_constant(f"{table}.{node.output}", values, kind)
    graph.add(_LOOKUP, (x, name, params), first.attrs, output=node.output, name=node.name)


def _applied(graph: Dataflow, node: Node, entries: Array) -> Array:
    """The results of `node` for these values of its first operand."""
    others = node.inputs[1:]
    arrays = [entries, *(graph.constant(name) for name in others)]
    types = [TensorType(entries.shape, entries.dtype.name), *(graph.types[n] for n in others)]
    return get_op(node.op).evaluate(arrays, types, node.attrs)
