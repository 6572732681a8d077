"""Permutes channels on the accelerator, for channel shuffles."""

import numpy as np

from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.ops.integer import is_wide
from daedal.compiler.graph.rewrite import Rewriter, rewrite
from daedal.compiler.graph.selection import add_selection
from daedal.compiler.graph.views import VIEWS, read_views, view_source

__all__ = ["shuffles_to_selections"]


def shuffles_to_selections(graph: Graph) -> Graph:
    """Turn views that permute the channels of an integer operator's map into selections. Exact.

    A shuffle at the border to the host stays on the host, which moves the bytes anyway.

    Before::

        t = transpose(reshape(x)) order=0,2,1,3,4       # x: int8[1,112,28,28], as 4 groups of 28
        s = reshape(t) shape=1,112,28,28
        y = q_conv2d(s, w, p) ...

    After::

        const s.select: int8[112,112,1,1]
        s = q_conv2d(x, s.select, s.params) ...         # channel i is channel i % 4 * 28 + i // 4
        y = q_conv2d(s, w, p) ...
    """
    wanted = read_views(graph)

    def select(new: Rewriter, node: Node) -> None:
        found = _permutation(graph, node.output) if node.output in wanted else None
        if found is not None:
            add_selection(new, *found, node.output, node.name)

    return rewrite(graph, dict.fromkeys(VIEWS, select))


def _permutation(graph: Graph, name: str) -> tuple[str, Array] | None:
    """The map whose channels `name` permutes, and their order; None otherwise."""
    found = view_source(graph, name)
    if found is None or is_wide(graph.types[name]):
        return None
    root, places = found
    images, count, *extents = graph.types[root].shape
    if graph.types[name].shape != (images, count, *extents):
        return None
    pixels = int(np.prod(extents))
    channels = places[0].reshape(count, pixels)[:, 0] // pixels
    if channels.max() >= count:
        return None  # The first image takes from others.
    start = np.arange(places.size, dtype=places.dtype).reshape(places.shape)
    return (root, channels) if np.array_equal(places, start[:, channels]) else None
