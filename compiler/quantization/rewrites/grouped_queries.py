"""Attention whose keys and values are repeated for several heads of queries, without copies."""

import math

import numpy as np
import onnx
from onnx import helper

from daedal.compiler.frontend.attributes import attribute
from daedal.compiler.quantization.network import Array, Network
from daedal.compiler.quantization.onnx_attentions import Attention, find_attentions
from daedal.compiler.quantization.rewrites.edges import Edges

__all__ = ["group_queries"]

_VIEWS = ("Reshape", "Transpose")

_RANK = 4
"""Of (batch, heads, tokens, width)."""


def group_queries(network: Network) -> None:
    """Let each head of keys and values serve its heads of queries by a product that broadcasts.

    Before; k and v are (1, 2, 1, T, W), q is (1, 8, T, W)::

        K = Reshape(Expand(k))                          # (1, 2, 4, T, W), (1, 8, T, W)
        V = Reshape(Expand(v))
        y = MatMul(Softmax(MatMul(q, Transpose(K))), V)

    After::

        s = MatMul(Reshape(q), Transpose(k))            # (1, 2, 4, T, W), (1, 2, 1, W, T)
        y = Reshape(MatMul(Softmax(s), v))
    """
    edges = Edges.of(network)
    before: dict[str, list[onnx.NodeProto]] = {}
    behind: dict[str, onnx.NodeProto] = {}
    for attention in find_attentions(network, network.types()):
        keys = _repeated(edges, attention.keys, (0, 1, 2, 4, 3))
        values = _repeated(edges, attention.values, (0, 1, 2, 3, 4))
        if keys is None or values is None or not _group_mask(edges, attention, keys):
            continue
        first, last = (edges.producers[attention.inner[place]] for place in (0, -1))
        before[first.output[0]] = _group_scores(edges, attention, first, keys)
        result = _group_result(edges, last, values)
        behind[last.output[0]] = result
    network.nodes = [
        item
        for node in network.nodes
        for item in (
            *before.get(node.output[0], ()),
            node,
            *([behind[node.output[0]]] if node.output[0] in behind else []),
        )
    ]
    network.drop_unread()


def _repeated(edges: Edges, name: str, order: tuple[int, ...]) -> str | None:
    """The tensor (batch, heads, 1, tokens, width) whose heads are repeated, each next to itself, to
    give `name`, with the axes in `order`; None if it is something else."""
    views: list[onnx.NodeProto] = []
    root = name
    while (node := edges.producers.get(root)) is not None and node.op_type in _VIEWS:
        views.insert(0, node)
        root = node.input[0]
    if node is None or node.op_type != "Expand":
        return None
    names = (node.input[0], root, *(view.output[0] for view in views))
    if any(item not in edges.shapes for item in names):
        return None
    before, after = (edges.shapes[item] for item in names[:2])
    if len(before) != _RANK + 1 or before != (*after[:2], 1, *after[3:]):
        return None
    numbers: Array = np.arange(math.prod(after), dtype=np.int32).reshape(after)
    found = numbers
    for view in views:
        if view.op_type == "Transpose":
            found = found.transpose(attribute(view, "perm", range(found.ndim)[::-1]))
        found = found.reshape(edges.shapes[view.output[0]])
    batch, heads, copies, *rest = numbers.transpose(order).shape
    wanted = numbers.transpose(order).reshape(batch, heads * copies, *rest)
    return str(node.input[0]) if np.array_equal(found, wanted) else None


def _group_mask(edges: Edges, attention: Attention, keys: str) -> bool:
    """Give a mask of each head the form of grouped scores; False where that cannot be."""
    if attention.mask is None:
        return True
    *outer, rows, columns = edges.shapes[attention.mask]
    if all(extent == 1 for extent in outer):
        return True
    mask = edges.network.constants.get(attention.mask)
    if mask is None or len(outer) != _RANK - 2:
        return False
    heads = edges.shapes[keys][1]
    groups = (heads, outer[1] // heads) if outer[1] > 1 else (1, 1)
    grouped = mask.reshape(outer[0], *groups, rows, columns)
    (added,) = (
        node for name in attention.inner if (node := edges.producer(name, "Add")) is not None
    )
    place = list(added.input).index(attention.mask)
    added.input[place] = edges.network.add_constant(f"{attention.mask}_grouped", grouped)
    return True


def _group_scores(
    edges: Edges, attention: Attention, product: onnx.NodeProto, keys: str
) -> list[onnx.NodeProto]:
    """Let the product of queries and keys read groups; the nodes that make them."""
    batch, heads, *_ = edges.shapes[keys]
    queries = attention.queries
    turned, grouped = (
        edges.network.fresh(name) for name in (f"{keys}_turned", f"{queries}_grouped")
    )
    product.input[:] = [grouped, turned]
    return [
        helper.make_node("Transpose", [keys], [turned], name=turned, perm=[0, 1, 2, 4, 3]),
        edges.network.reshape(queries, (batch, heads, -1, *edges.shapes[queries][2:]), grouped),
    ]


def _group_result(edges: Edges, product: onnx.NodeProto, values: str) -> onnx.NodeProto:
    """Let the product with the values read groups; the node behind it."""
    result = product.output[0]
    product.input[1], product.output[0] = values, edges.network.fresh(f"{result}_grouped")
    return edges.network.reshape(product.output[0], edges.shapes[result], result)
