"""Replaces chains of reshapes and transposes that leave all elements in their order."""

from collections.abc import Sequence

import numpy as np

from daedal.compiler.graph.dataflow import Dataflow, is_read_once
from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.ops.registry import ints
from daedal.compiler.graph.rewrite import Rewriter, rewrite
from daedal.compiler.graph.views import VIEWS

__all__ = ["simplify_transposes"]

_MAX_CHAIN = 64
"""Views that are looked back at; real chains have a few, and each node looks."""


def simplify_transposes(graph: Graph) -> Graph:
    """Turn a transpose into a reshape of the tensor at the start of its chain. Exact.

    The chain must leave the order of the elements unchanged.

    Before::

        b = reshape(a) shape=1,64,49        # a: int8[1,64,7,7]
        c = transpose(b) order=0,2,1
        d = transpose(c) order=0,2,1

    After::

        d = reshape(a) shape=1,64,49
    """
    return rewrite(graph, dict.fromkeys(VIEWS, _simplify))


def _simplify(graph: Rewriter, node: Node) -> None:
    root = _root_in_order(graph, node)
    if root is not None:
        attrs = {"shape": graph.types[node.output].shape}
        graph.add("reshape", [root], attrs, output=node.output, name=node.name)
    elif node.op == "reshape":
        _drop_before(graph, node)


def _drop_before(graph: Rewriter, node: Node) -> None:
    """Drop axes of one element before a transpose, not after it."""
    turned = graph.producers.get(node.inputs[0])
    if turned is None or turned.op != "transpose" or not is_read_once(graph, turned.output):
        return
    shape, wanted = graph.types[turned.output].shape, graph.types[node.output].shape
    kept = _kept_axes(shape, wanted)
    if not kept or len(kept) == len(shape):
        return
    order = [ints(turned.attrs, "order")[axis] for axis in kept]
    before = graph.types[turned.inputs[0]].shape
    attrs = {"shape": tuple(before[axis] for axis in sorted(order))}
    view = graph.add_fresh("reshape", turned.inputs, attrs, base=f"{node.output}.view")
    ranks = tuple(int(i) for i in np.argsort(np.argsort(order)))
    graph.add("transpose", [view], {"order": ranks}, output=node.output, name=node.name)


def _kept_axes(shape: Sequence[int], wanted: Sequence[int]) -> list[int]:
    """The axes that are left where axes of one element are dropped; none where others change."""
    kept = list[int]()
    for axis, extent in enumerate(shape):
        if len(kept) < len(wanted) and wanted[len(kept)] == extent:
            kept.append(axis)
        elif extent != 1:
            return []
    return kept if len(kept) == len(wanted) else []


def _root_in_order(graph: Dataflow, node: Node) -> str | None:
    """The first tensor of the longest chain that contains a transpose and keeps the order.

    The order is found by moving element numbers backwards through the chain.
    """
    kind = graph.types[node.output]
    start = np.arange(kind.num_elements, dtype=np.int32)
    value: Array = start.reshape(kind.shape)
    found = None
    current: Node | None = node
    for _ in range(_MAX_CHAIN):
        if current is None or current.op not in VIEWS:
            break
        root = current.inputs[0]
        value = _before(graph, current, value)
        if current.op == "transpose" and np.array_equal(value.reshape(-1), start):
            found = root
        current = graph.producers.get(root)
    return found


def _before(graph: Dataflow, node: Node, value: Array) -> Array:
    """The operand of a view whose result is `value`."""
    if node.op == "transpose":
        return value.transpose(np.argsort(ints(node.attrs, "order")))
    return value.reshape(graph.types[node.inputs[0]].shape)
