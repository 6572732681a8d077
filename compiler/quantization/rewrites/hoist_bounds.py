"""Moves ReLU and Clip across operators that only move elements, next to the layer before them."""

from collections.abc import Sequence

from daedal.compiler.graph.dataflow import is_read_once, sole_producer
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.rewrite import Rewriter, rewrite
from daedal.compiler.quantization.operators import BOUNDS, moved_operands

__all__ = ["hoist_bounds"]

_COMMUTING = ("concat", "max_pool", "reshape", "slice", "transpose")
"""Operators that select elements and add none, so that bounds may be applied before."""


def hoist_bounds(graph: Graph) -> Graph:
    """Apply bounds before the elements are moved.

    There they cost nothing, because they become bounds of the layer. The layer's quantization then
    covers only the range within the bounds.

    Before::

        t = max_pool(conv2d(x, w)) ...
        y = relu(t)

    After::

        t = relu(conv2d(x, w))
        y = max_pool(t) ...
    """
    return rewrite(graph, dict.fromkeys(BOUNDS, _hoist))


def _hoist(graph: Rewriter, bound: Node) -> None:
    mover = sole_producer(graph, bound.inputs[0], _COMMUTING)
    if mover is None or not all(
        is_read_once(graph, name) and not graph.is_constant(name) for name in moved_operands(mover)
    ):
        return
    inputs: Sequence[str] = [
        graph.add_fresh(bound.op, [name], bound.attrs, base=f"{name}.{bound.op}")
        for name in moved_operands(mover)
    ]
    graph.add(mover.op, inputs, mover.attrs, output=bound.output, name=mover.name)
