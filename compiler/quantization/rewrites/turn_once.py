"""Chains of views that only bring axes into another order."""

from collections.abc import Sequence

import numpy as np

from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.ops.registry import ints
from daedal.compiler.graph.rewrite import Rewriter, rewrite
from daedal.compiler.graph.views import VIEWS

__all__ = ["turn_once"]

_MAX_CHAIN = 8


def turn_once(graph: Graph) -> Graph:
    """Write reshapes and transposes that together are one transpose as that. Exact.

    Before, keys as `scaled_dot_product_attention` is exported::

        a = reshape(k) shape=50,2,8             # k: float32[1,50,2,8]
        b = transpose(a) order=1,0,2
        c = transpose(b) order=0,2,1
        y = reshape(c) shape=1,2,8,50

    After::

        y = transpose(k) order=0,2,3,1
    """
    return rewrite(graph, dict.fromkeys(VIEWS, _turn_once))


def _turn_once(graph: Rewriter, node: Node) -> None:
    kind = graph.types[node.output]
    places: Array = np.arange(kind.num_elements, dtype=np.int32).reshape(kind.shape)
    found, turns = None, 0
    current: Node | None = node
    for length in range(1, _MAX_CHAIN + 1):
        if current is None or current.op not in VIEWS:
            break
        (source,) = current.inputs
        if current.op == "transpose":
            places = places.transpose(np.argsort(ints(current.attrs, "order")))
            turns += 1
        else:
            places = places.reshape(graph.types[source].shape)
        order = _order(places, kind.shape)
        if length > 1 and turns and order is not None:
            found = source, order
        current = graph.producers.get(source)
    if found is not None:
        source, order = found
        attrs = {"order": order}
        graph.add("transpose", [source], attrs, output=node.output, name=node.name)


def _order(places: Array, shape: Sequence[int]) -> tuple[int, ...] | None:
    """The order of axes in which numbers count up in `shape`; None if there is none."""
    if places.ndim != len(shape):
        return None
    long = [axis for axis, extent in enumerate(places.shape) if extent > 1]
    steps = {axis: places.take(1, axis).flat[0] - places.flat[0] for axis in long}
    ordered = iter(sorted(long, key=lambda axis: -steps[axis]))
    others = iter(axis for axis in range(places.ndim) if axis not in steps)
    order = [next(others if extent == 1 else ordered, -1) for extent in shape]
    if -1 in order or [places.shape[axis] for axis in order] != list(shape):
        return None
    counted = places.transpose(order).ravel()
    return tuple(order) if np.array_equal(counted, np.arange(len(counted))) else None
