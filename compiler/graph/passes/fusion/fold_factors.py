"""Multiplies constants of sums by their factors at compile time."""

import numpy as np

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Attrs, Graph, Node
from daedal.compiler.graph.layout import ActivationLayout
from daedal.compiler.graph.ops.integer import is_wide
from daedal.compiler.graph.ops.registry import whole

__all__ = ["fold_factors"]

_LIMIT = (1 << 31) - 1


def fold_factors(graph: Graph) -> Graph:
    """Give constant wide operands of sums a factor of 1. Exact: blocked, they are rows of
    accumulators, which hold the products, too.

    Before::

        const c: int32[...] = [3, -5, ...]
        y = q_add(a, c, p) multiplier_a=24366 multiplier_b=1379

    After::

        const y.scaled: int32[...] = [4137, -6895, ...]
        y = q_add(a, y.scaled, p) multiplier_a=24366 multiplier_b=1
    """
    builder = GraphBuilder(graph.name, graph)
    builder.copy_inputs()
    for node in graph.nodes:
        if node.op != "q_add":
            builder.copy_node(node)
            continue
        *operands, params = node.inputs
        attrs: Attrs = dict(node.attrs)
        for place, letter in enumerate("ab"):
            name = _scaled(builder, graph, node, operands[place], f"multiplier_{letter}")
            if name is not None:
                operands[place] = name
                attrs = {**attrs, f"multiplier_{letter}": 1}
        builder.add(node.op, [*operands, params], attrs, output=node.output, name=node.name)
    return builder.finish(graph.outputs)


def _scaled(
    builder: GraphBuilder, graph: Graph, node: Node, operand: str, factor: str
) -> str | None:
    """The constant `operand` times its factor; None where it is none, or needs no factor."""
    times, kind = whole(node.attrs, factor), graph.types[operand]
    blocked = isinstance(kind.layout, ActivationLayout) and is_wide(kind)
    if times == 1 or not (blocked and graph.is_constant(operand)):
        return None
    values = graph.constant(operand).astype(np.int64) * times
    if np.abs(values).max(initial=0) > _LIMIT:
        return None
    name = builder.fresh_name(f"{node.output}.scaled")
    return builder.constant(name, values.astype(kind.dtype), kind)
