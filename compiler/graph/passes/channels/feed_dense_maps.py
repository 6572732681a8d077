"""Lets dense layers over a row of elements read the channels that these were."""

import math

from daedal.compiler.graph.dataflow import Dataflow, is_accelerated
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.registry import whole
from daedal.compiler.graph.rewrite import Rewriter, rewrite
from daedal.compiler.graph.selection import PIXELWISE
from daedal.compiler.graph.views import is_in_order, source_of

__all__ = ["feed_dense_maps"]


def feed_dense_maps(graph: Graph) -> Graph:
    """Skip reshapes of one pixel's channels before a convolution over the whole map. Exact.

    A token that is sliced from a sequence and flattened is such a map: `flatten_dense_to_conv`
    takes it for a row of pixels, before `move_transposes` finds out that they are channels.

    Before::

        r = reshape(x) shape=1,1,1,64               # x: int8[1,64,1,1]
        y = q_conv2d(r, w, p) ...                   # w: int8[10,1,1,64]

    After::

        const w.channels: int8[10,64,1,1]
        y = q_conv2d(x, w.channels, p) ...
    """
    return rewrite(graph, {"q_conv2d": _feed})


def _feed(graph: Rewriter, node: Node) -> None:
    source = _channels(graph, node)
    if source is not None:
        _, w, params = node.inputs
        weights = graph.constant(w)
        channels = graph.fresh_constant(f"{w}.channels", weights.reshape(len(weights), -1, 1, 1))
        graph.replace(node, [source, channels, params])


def _channels(graph: Dataflow, node: Node) -> str | None:
    """The map of one pixel whose channels a convolution reads as something else, or None."""
    if whole(node.attrs, "groups") > 1:
        return None
    x, w, _ = node.inputs
    kind, kernel = graph.types[x], graph.types[w].shape[1:]
    window = {name: node.attrs[name] for name in PIXELWISE if name != "pad_value"}
    is_whole = kind.shape[1:] == kernel and all(window[name] == PIXELWISE[name] for name in window)
    root, places = source_of(graph, x)
    if root == x or not is_whole or not is_accelerated(graph, root):
        return None
    wanted = (kind.shape[0], math.prod(kernel), 1, 1)
    return root if graph.types[root].shape == wanted and is_in_order(places()) else None
