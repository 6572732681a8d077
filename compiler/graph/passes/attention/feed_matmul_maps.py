"""Lets integer matrix products read maps directly, since only the order of the pixels matters."""

from daedal.compiler.graph.dataflow import Dataflow, producer_of
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.layout import MAP_RANK
from daedal.compiler.graph.ops.attention import MATMULS, masks_of
from daedal.compiler.graph.rewrite import Rewriter, rewrite

__all__ = ["feed_matmul_maps"]


def feed_matmul_maps(graph: Graph) -> Graph:
    """Skip reshapes that only join the pixels of a map before a `q_matmul`. Exact.

    The result has the rows and columns of the first operand, so a reshape is added after it.
    `simplify_reshapes` drops that one where the result is read as a map again.

    Before::

        b = reshape(a) shape=1,64,49,1      # a: int8[1,64,7,7]
        y = q_matmul(b, c, f, p) ...        # int8[1,32,49,1]

    After::

        y.map = q_matmul(a, c, f, p) ...    # int8[1,32,7,7]
        y = reshape(y.map) shape=1,32,49,1
    """
    return rewrite(graph, dict.fromkeys(MATMULS, _feed))


def _feed(graph: Rewriter, node: Node) -> None:
    a, b, *others = node.inputs
    source, other = _map_behind(graph, a), _map_behind(graph, b)
    if any(graph.types[name].shape[2:] != (1, 1) for name in masks_of(node)):
        source = a
    if source != a:
        base, shape = f"{node.output}.map", graph.types[node.output].shape
        operands = [source, other, *others]
        name = graph.add_fresh(node.op, operands, node.attrs, base=base, name=node.name)
        graph.add("reshape", [name], {"shape": shape}, output=node.output)
    else:
        graph.replace(node, [a, other, *others])


def _map_behind(graph: Dataflow, name: str) -> str:
    """The map that `name` reshapes, if it has the same images and channels; else `name`."""
    found, shape = name, graph.types[name].shape
    while view := producer_of(graph, name, ("reshape",)):
        name = view.inputs[0]
        before = graph.types[name].shape
        if len(before) == MAP_RANK and before[:2] == shape[:2]:
            found = name
    return found
