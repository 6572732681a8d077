"""Moves vectors of channels on the accelerator: windows, patches, blocks of channels as pixels."""

from math import prod

import numpy as np

from daedal.compiler.graph.graph import Array, AttrValue, Graph, Node
from daedal.compiler.graph.layout import MAP_RANK
from daedal.compiler.graph.ops.integer import IDENTITY, UNCHANGED, UNCHANGED_WIDE, is_wide
from daedal.compiler.graph.ops.permute import Q_PERMUTE, vector_order, vectors_of
from daedal.compiler.graph.rewrite import Rewriter, rewrite
from daedal.compiler.graph.selection import add_selection
from daedal.compiler.graph.views import VIEWS, read_views, turned_axes, view_source

__all__ = ["views_to_permutes"]

Attrs = dict[str, AttrValue]


def views_to_permutes(graph: Graph, *, block: int) -> Graph:
    """Turn views that keep vectors of `block` channels whole into permutations of these. Exact.

    Views at the border to the host stay on the host, which moves the bytes anyway.

    Before::

        t = transpose(reshape(x)) order=0,2,4,1,3,5     # x: int8[1,96,56,56], in windows of 7 x 7
        w = reshape(t) shape=64,96,7,7
        y = q_conv2d(w, k, p) ...

    After::

        w = q_permute(x, i) split=96,8,7,8,7 order=1,3,0,2,4 shape=64,96,7,7 ...
        y = q_conv2d(w, k, p) ...

    Where vectors would stay whole if the channels were in another order, as in DepthToSpace of the
    order CRD, a selection brings them into it. The convolution before can become part of that.
    """
    wanted = read_views(graph)

    def permute(new: Rewriter, node: Node) -> None:
        found = _permutation(graph, node.output, block) if node.output in wanted else None
        if found is None:
            return
        root, channels, attrs = found
        if channels is not None:
            selected = new.fresh_name(f"{node.output}.selected")
            root = add_selection(new, root, channels, selected, node.name)
        unchanged = UNCHANGED_WIDE if is_wide(new.types[root]) else UNCHANGED
        same = new.fresh_constant(f"{node.output}.identity", IDENTITY)
        new.replace(node, [root, same], {**attrs, **unchanged}, op=Q_PERMUTE.name)

    return rewrite(graph, dict.fromkeys(VIEWS, permute))


def _permutation(graph: Graph, name: str, block: int) -> tuple[str, Array | None, Attrs] | None:
    """The map that `name` is a permutation of, the order in which its channels have to be, if not
    as they are, and how vectors move; None where they do not stay whole, or not in nested loops."""
    kind = graph.types[name]
    found = view_source(graph, name) if kind.rank == MAP_RANK else None
    if found is None:
        return None
    root, places = found
    shape = graph.types[root].shape
    attrs = _moves(places, shape, block)
    if attrs is not None:
        return root, None, attrs
    channels = _channels_of_vectors(places, shape, block)
    if channels is None or is_wide(kind):
        return None
    numbers: Array = np.arange(places.size).reshape(shape)
    begins: Array = np.empty_like(numbers)
    begins.reshape(-1)[numbers[:, channels].reshape(-1)] = numbers.reshape(-1)
    attrs = _moves(begins.reshape(-1)[places], shape, block)
    return None if attrs is None else (root, channels, attrs)


def _moves(places: Array, shape: tuple[int, ...], block: int) -> Attrs | None:
    """How the vectors of a map of `shape` come to `places`. Where all stay in their order, as heads
    of one block each do, `moves_to_views` leaves nothing to move."""
    axes = turned_axes(places)
    if axes is None:
        return None
    split, order = axes
    attrs: Attrs = {"split": split, "order": order, "shape": places.shape}
    numbers = vector_order(shape, attrs, block)
    return attrs if numbers is not None and turned_axes(numbers) is not None else None


def _channels_of_vectors(places: Array, shape: tuple[int, ...], block: int) -> Array | None:
    """The channels of a map of `shape` in the order in which they fill the vectors of `places`;
    None unless each is in one lane of one vector of every pixel."""
    if shape[1] % block or places.shape[1] % block:
        return None
    pixels = prod(shape[2:])
    vectors = vectors_of(places, block)
    channels: Array = np.unique(vectors // pixels % shape[1], axis=0).reshape(-1)
    return channels if np.array_equal(np.sort(channels), np.arange(shape[1])) else None
