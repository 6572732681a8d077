"""Slices of a tensor that, side by side, are all of it in another order."""

import numpy as np

from daedal.compiler.graph.dataflow import Dataflow, first_behind, producer_of
from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.ops.registry import get_op, whole
from daedal.compiler.graph.rewrite import Rewriter, rewrite
from daedal.compiler.graph.views import add_moved

__all__ = ["turn_joined_slices"]

_SLICE = ("slice",)


def turn_joined_slices(graph: Graph) -> Graph:
    """Write slices of every n-th place that are joined again as a transpose.

    Before, patch merging of Swin::

        a = slice(x) begins=0,0,0,0 ends=1,4,4,8 steps=1,2,2,1      # x: float32[1,4,4,8]
        b = slice(x) begins=0,1,0,0 ends=1,4,4,8 steps=1,2,2,1      # and so c and d
        y = concat(a, b, c, d) axis=3

    After::

        s = reshape(x) shape=2,2,2,2,8
        t = transpose(s) order=0,2,3,1,4
        y = reshape(t) shape=1,2,2,32
    """
    return rewrite(graph, {"concat": _turn})


def _turn(graph: Rewriter, node: Node) -> None:
    roots = {first_behind(graph, name, _SLICE) for name in node.inputs}
    root = roots.pop()
    if not roots and graph.types[root].num_elements == graph.types[node.output].num_elements:
        parts = [_places(graph, name) for name in node.inputs]
        add_moved(graph, root, np.concatenate(parts, whole(node.attrs, "axis")), node.output)


def _places(graph: Dataflow, name: str) -> Array:
    """Which elements slices, one behind the other, take, as flat indices."""
    node = producer_of(graph, name, _SLICE)
    if node is None:
        kind = graph.types[name]
        return np.arange(kind.num_elements).reshape(kind.shape)
    operand = node.inputs[0]
    places = _places(graph, operand)
    return get_op(node.op).evaluate([places], [graph.types[operand]], node.attrs)
