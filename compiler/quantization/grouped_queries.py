"""Attention whose keys and values are repeated for several heads of queries, without copies."""

import math
from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper

from daedal.compiler.frontend.attributes import attribute
from daedal.compiler.quantization.attentions import Attention, find_attentions
from daedal.compiler.quantization.edges import Edges
from daedal.compiler.quantization.network import Network

__all__ = ["group_queries"]

_RANK = 4
"""Of (batch, heads, tokens, width)."""


def group_queries(network: Network) -> None:
    """Let each head of keys and values serve its heads of queries by a product that broadcasts.

    Before; k and v are (1, 2, T, W), q is (1, 8, T, W)::

        K = Reshape(Expand(Reshape(k)))         # (1, 2, 1, T, W), (1, 2, 4, T, W), (1, 8, T, W)
        V = Reshape(Expand(Reshape(v)))
        y = MatMul(Softmax(MatMul(q, Transpose(K))), V)

    After::

        s = MatMul(Reshape(q), Reshape(Transpose(k)))   # (1, 2, 4, T, W), (1, 2, 1, W, T)
        y = Reshape(MatMul(Softmax(s), Reshape(v)))     # (1, 2, 1, T, W)
    """
    edges = Edges.of(network)
    before: dict[str, list[onnx.NodeProto]] = {}
    behind: dict[str, onnx.NodeProto] = {}
    for attention in find_attentions(network, network.types()):
        keys, values = _repeated_keys(edges, attention.keys), _repeated(edges, attention.values)
        if keys is None or values is None or not _group_mask(edges, attention, keys):
            continue
        first, last = (edges.producers[attention.inner[place]] for place in (0, -1))
        before[first.output[0]] = _group_scores(edges, attention, first, keys)
        view, result = _group_result(edges, last, values)
        before[last.output[0]] = [view]
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


def _repeated_keys(edges: Edges, name: str) -> str | None:
    """As `_repeated`, of turned keys (batch, heads, width, tokens)."""
    turned = edges.producer(name, "Transpose")
    if turned is None or list(attribute(turned, "perm", ())) != [0, 1, 3, 2]:
        return None
    return _repeated(edges, turned.input[0])


def _repeated(edges: Edges, name: str) -> str | None:
    """The tensor (batch, heads, tokens, width) whose heads are repeated, each next to itself, to
    give `name`; None if it is something else."""
    joined = edges.producer(name, "Reshape")
    expanded = None if joined is None else edges.producer(joined.input[0], "Expand")
    split = None if expanded is None else edges.producer(expanded.input[0], "Reshape")
    if split is None or expanded is None:
        return None
    batch, heads, *rest = edges.shapes[split.input[0]]
    copies = edges.shapes[expanded.output[0]][2:3]
    forms = (
        ((batch, heads, *rest), split.input[0]),
        ((batch, heads, 1, *rest), split.output[0]),
        ((batch, heads, *copies, *rest), expanded.output[0]),
        ((batch, heads * math.prod(copies), *rest), name),
    )
    known = len(rest) == _RANK - 2 and all(edges.shapes[item] == form for form, item in forms)
    return split.input[0] if known else None


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
    batch, heads, tokens, width = edges.shapes[keys]
    turned, queries = edges.network.fresh(f"{keys}_turned"), attention.queries
    *_, rows, _ = edges.shapes[queries]
    names = [edges.network.fresh(f"{name}_grouped") for name in (queries, keys)]
    product.input[:] = names
    return [
        helper.make_node("Transpose", [keys], [turned], name=turned, perm=[0, 1, 3, 2]),
        _reshape(edges, turned, (batch, heads, 1, width, tokens), names[1]),
        _reshape(edges, queries, (batch, heads, -1, rows, width), names[0]),
    ]


def _group_result(
    edges: Edges, product: onnx.NodeProto, values: str
) -> tuple[onnx.NodeProto, onnx.NodeProto]:
    """Let the product with the values read groups: the node before it, and the one behind it."""
    batch, heads, *rest = edges.shapes[values]
    result = product.output[0]
    names = [edges.network.fresh(f"{name}_grouped") for name in (values, result)]
    product.input[1], product.output[0] = names
    return (
        _reshape(edges, values, (batch, heads, 1, *rest), names[0]),
        _reshape(edges, names[1], edges.shapes[result], result),
    )


def _reshape(edges: Edges, name: str, shape: Sequence[int], output: str) -> onnx.NodeProto:
    size = edges.network.add_constant(f"{output}_shape", np.array(shape, dtype=np.int64))
    node = edges.network.fresh(f"{output}_view")
    return helper.make_node("Reshape", [name, size], [output], name=node)
