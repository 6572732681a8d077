"""Multiplies constants of sums by their factors at compile time."""

import numpy as np

from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.layout import ActivationLayout
from daedal.compiler.graph.ops.integer import is_wide
from daedal.compiler.graph.ops.registry import whole
from daedal.compiler.graph.rewrite import Rewriter, rewrite

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
    return rewrite(graph, {"q_add": _fold})


def _fold(graph: Rewriter, node: Node) -> None:
    for place, letter in enumerate("ab"):
        operands, factor = list(node.inputs), f"multiplier_{letter}"
        name, times = operands[place], whole(node.attrs, factor)
        kind = graph.types[name]
        blocked = isinstance(kind.layout, ActivationLayout) and is_wide(kind)
        if times == 1 or not (blocked and graph.is_constant(name)):
            continue
        values = graph.constant(name).astype(np.int64) * times
        if np.abs(values).max(initial=0) <= _LIMIT:
            scaled = values.astype(kind.dtype)
            operands[place] = graph.fresh_constant(f"{node.output}.scaled", scaled, kind)
            graph.replace(node, operands, {**node.attrs, factor: 1})
            return
