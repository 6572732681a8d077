"""Attention whose keys and values are repeated for several heads of queries, without copies."""

import math

import numpy as np

from daedal.compiler.graph.dataflow import Dataflow
from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.ops.registry import ints
from daedal.compiler.graph.rewrite import Rewriter, walk
from daedal.compiler.quantization.attentions import attention_of, copy_attention
from daedal.compiler.quantization.rewrites.patterns import producer

__all__ = ["group_queries"]

_RANK = 4
"""Of (batch, heads, tokens, width)."""


def group_queries(graph: Graph) -> Graph:
    """Let each head of keys and values serve its heads of queries by a product that broadcasts.

    Before; k and v are (1, 2, 1, T, W), q is (1, 8, T, W)::

        K = reshape(expand(k))                          # (1, 2, 4, T, W), (1, 8, T, W)
        V = reshape(expand(v))                          # or concat(v, v, v, v)
        y = matmul(softmax(matmul(q, transpose(K))), V)

    After::

        s = matmul(reshape(q), transpose(k))            # (1, 2, 4, T, W), (1, 2, 1, W, T)
        y = reshape(matmul(softmax(s), v))
    """
    return walk(graph, {"matmul": _group})


def _group(graph: Rewriter, node: Node) -> None:
    attention = attention_of(graph, node)
    if attention is None:
        return
    keys = _repeated(graph, attention.keys, (0, 1, 2, 4, 3))
    values = _repeated(graph, attention.values, (0, 1, 2, 3, 4))
    if keys is None or values is None:
        return
    heads = graph.types[keys].shape[1]
    operands = {"values": values}
    if attention.mask is not None:
        mask = _group_mask(graph, attention.mask, heads)
        if mask is None:
            return
        operands["mask"] = mask
    batch, _, *rest = graph.types[attention.queries].shape
    grouped = {"shape": (batch, heads, graph.types[attention.queries].shape[1] // heads, *rest)}
    operands["queries"] = graph.add_fresh(
        "reshape", [attention.queries], grouped, base=f"{attention.queries}.grouped"
    )
    operands["keys"] = graph.add_fresh(
        "transpose", [keys], {"order": (0, 1, 2, 4, 3)}, base=f"{keys}.turned"
    )
    result = copy_attention(graph, attention, operands, "grouped")
    shape = graph.types[node.output].shape
    graph.add("reshape", [result], {"shape": shape}, output=node.output)


def _repeated(graph: Dataflow, name: str, order: tuple[int, ...]) -> str | None:
    """The tensor (batch, heads, 1, tokens, width) whose heads are repeated, each next to itself, to
    give `name`, with the axes in `order`; None if it is something else."""
    views: list[Node] = []
    while (view := producer(graph, name, "reshape", "transpose")) is not None:
        views.insert(0, view)
        name = view.inputs[0]
    node = producer(graph, name, "Expand", "concat")
    if node is None or (node.op == "concat" and len(set(node.inputs)) > 1):
        return None
    before, after = graph.types[node.inputs[0]].shape, graph.types[name].shape
    if len(before) != _RANK + 1 or before != (*after[:2], 1, *after[3:]):
        return None
    numbers: Array = np.arange(math.prod(after), dtype=np.int32).reshape(after)
    found = numbers
    for view in views:
        if view.op == "transpose":
            found = found.transpose(ints(view.attrs, "order"))
        found = found.reshape(graph.types[view.output].shape)
    batch, heads, copies, *rest = numbers.transpose(order).shape
    wanted = numbers.transpose(order).reshape(batch, heads * copies, *rest)
    return node.inputs[0] if np.array_equal(found, wanted) else None


def _group_mask(graph: Rewriter, mask: str, heads: int) -> str | None:
    """A mask in the form of scores grouped for `heads`, or None where that cannot be."""
    shape = graph.types[mask].shape
    outer = shape[:-2]
    if all(extent == 1 for extent in outer):
        return mask
    if not graph.is_constant(mask) or len(outer) != _RANK - 2:
        return None
    batch, count = outer
    groups = (heads, count // heads) if count > 1 else (1, 1)
    grouped = graph.constant(mask).reshape(batch, *groups, *shape[2:])
    return graph.fresh_constant(f"{mask}.grouped", grouped)
