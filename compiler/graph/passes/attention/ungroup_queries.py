"""Makes images of the heads of queries that share a head of keys or values."""

import math

import numpy as np

from daedal.compiler.graph.fixpoint import to_fixpoint
from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.ops.attention import MATMULS, masks_of
from daedal.compiler.graph.ops.matmul import Q_MATMUL
from daedal.compiler.graph.passes.layout.move_transposes import move_transposes
from daedal.compiler.graph.passes.simplify.simplify_reshapes import simplify_reshapes
from daedal.compiler.graph.passes.simplify.simplify_transposes import simplify_transposes
from daedal.compiler.graph.rewrite import Rewriter, walk
from daedal.compiler.graph.views import add_moved, view_ends, view_source

__all__ = ["ungroup_queries"]


def ungroup_queries(graph: Graph) -> Graph:
    """Split the pixels of a product's first operand into images, which share the second's. Exact.

    In grouped-query attention, a product has the tokens of several heads as rows. In memory, the
    blocks of channels of a head come one after the other, so heads are views as images, but not as
    rows of one image. This is done where the first operand is made of heads, or a reader of the
    result takes it as heads. Operators between such products then work on heads, too.

    Before::

        a = reshape(transpose(reshape(q)))              # q: int8[1,128,50,1], a: int8[4,16,100,1]
        y = q_matmul(a, b, f, p) ...                    # b: int8[4,16,64,1], y: int8[4,50,100,1]

    After::

        a.heads = reshape(q) shape=8,16,50,1
        y.heads = q_matmul(a.heads, b, f, p) ...        # int8[8,50,50,1]
        y = reshape(transpose(reshape(y.heads)))
    """
    return to_fixpoint("ungroup_queries", graph, _step, _num_rows)


def _step(graph: Graph) -> Graph | None:
    changed = walk(graph, dict.fromkeys(MATMULS, lambda new, node: _ungroup(graph, new, node)))
    if changed is graph:
        return None
    return move_transposes(simplify_reshapes(simplify_transposes(changed)))


def _num_rows(graph: Graph) -> int:
    """Of all products, the rows of an image of the first operand: splitting makes them fewer."""
    operands = (node.inputs[0] for node in graph.nodes if node.op in MATMULS)
    return sum(math.prod(graph.types[name].shape[2:]) for name in operands)


def _share(graph: Graph, node: Node) -> int:
    """How many heads the rows of a product's first operand are; 1 if none are to be found."""
    found = view_source(graph, node.inputs[0])
    if node.op == Q_MATMUL.name and len(graph.constant(node.inputs[-1])) > 1:
        return 1
    if any(not _is_for_heads(graph, name) for name in masks_of(node)):
        return 1
    if found is not None:
        root, places = found
        share = _num_heads(places, graph.types[root].shape)
        if share > 1:
            return share
    for end in view_ends(graph, node.output):
        source = view_source(graph, end)
        if source is None or source[0] != node.output:
            continue
        back = np.argsort(source[1].reshape(-1)).reshape(graph.types[node.output].shape)
        share = _num_heads(back, graph.types[end].shape)
        if share > 1:
            return share
    return 1


def _num_heads(places: Array, shape: tuple[int, ...]) -> int:
    """How many heads are the pixels of each image of a map whose elements have the `places` in a
    map of `shape`."""
    images, channels, *pixels = places.shape
    rows, count = math.prod(pixels), math.prod(shape[2:])
    if rows % count or rows == count:
        return 1
    start = np.arange(places.size).reshape(images, rows // count, channels, count)
    grouped = start.transpose(0, 2, 1, 3).reshape(places.shape)
    return rows // count if np.array_equal(places, grouped) else 1


def _ungroup(graph: Graph, new: Rewriter, node: Node) -> None:
    share = _share(graph, node)
    if share == 1:
        return
    a, *others = node.inputs
    images, channels, *pixels = graph.types[a].shape
    rows = math.prod(pixels) // share
    start: Array = np.arange(images * channels * share * rows, dtype=np.int32)
    order = start.reshape(images, channels, share, rows).transpose(0, 2, 1, 3)
    split = new.fresh_name(f"{a}.heads")
    is_split = add_moved(new, a, order.reshape(-1, channels, rows, 1), split)
    for mask in masks_of(node):
        others[others.index(mask)] = _mask_of_heads(new, mask, images, rows)
    base = f"{node.output}.heads"
    heads = new.add_fresh(node.op, [split, *others], node.attrs, base=base, name=node.name)
    shape = graph.types[node.output].shape
    start = np.arange(math.prod(shape), dtype=np.int32)
    back = start.reshape(images, share, shape[1], rows).transpose(0, 2, 1, 3).reshape(shape)
    assert is_split and add_moved(new, heads, back, node.output), "both are transposes"


def _is_for_heads(graph: Graph, mask: str) -> bool:
    """Whether `_mask_of_heads` can split a mask: it is the same for all queries, or constant."""
    return graph.types[mask].shape[2:] == (1, 1) or graph.is_constant(mask)


def _mask_of_heads(graph: Rewriter, mask: str, images: int, rows: int) -> str:
    """The mask of queries of so many images that are split into heads of `rows`."""
    count, keys, *pixels = graph.types[mask].shape
    if pixels == [1, 1]:
        return mask
    values = graph.constant(mask).reshape(count, keys, -1, rows)
    if count == 1 and np.array_equal(values, np.broadcast_to(values[:, :, :1], values.shape)):
        heads = values[:, :, 0]
    else:
        each = np.broadcast_to(values, (images, *values.shape[1:]))
        heads = each.transpose(0, 2, 1, 3).reshape(-1, keys, rows)
    return graph.fresh_constant(f"{mask}.heads", heads[..., None])
