"""Leaves out products with zeros of selections: blocks of channels that read one block each."""

import numpy as np

from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.ops.append import has_states
from daedal.compiler.graph.rewrite import Rewriter, rewrite
from daedal.compiler.graph.selection import is_pixelwise

__all__ = ["diagonal_to_groups"]


def diagonal_to_groups(graph: Graph, *, block: int) -> Graph:
    """Make 1x1 convolutions whose weights are blocks on a diagonal grouped. Exact.

    Of a selection that fills up heads, or rotates their halves, each block of channels reads the
    one block that has them. For a single token, loading its weights takes longest. Only graphs with
    states are changed.

    Before (blocks of 16)::

        y = q_conv2d(x, w, p) groups=1 ...      # w: int8[128,64,1,1], x: int8[1,64,1,1]

    After::

        y = q_conv2d(x, w.groups, p) groups=4 ...       # w.groups: int8[128,16,1,1]
    """
    if not has_states(graph):
        return graph
    return rewrite(graph, {"q_conv2d": lambda graph, node: _split(graph, node, block)})


def _split(graph: Rewriter, node: Node, block: int) -> None:
    x, w, params = node.inputs
    weights = graph.constant(w)
    count = _num_groups(weights[..., 0, 0], block) if is_pixelwise(graph, node) else 1
    if count > 1:
        outs, ins = (extent // count for extent in weights.shape[:2])
        every = np.arange(count)
        split = weights.reshape(count, outs, count, ins, 1, 1)[every, :, every]
        name = graph.fresh_constant(f"{w}.groups", split.reshape(-1, ins, 1, 1))
        graph.replace(node, [x, name, params], {**node.attrs, "groups": count})


def _num_groups(weights: Array, block: int) -> int:
    """The most groups of whole blocks into which weights (outputs, inputs) fall apart."""
    outs, ins = weights.shape
    for count in range(min(outs, ins) // block, 1, -1):
        if outs % (count * block) or ins % (count * block):
            continue
        blocks = weights.reshape(count, outs // count, count, ins // count)
        sums = np.abs(blocks.astype(np.int64)).sum(axis=(1, 3))
        if np.count_nonzero(sums) == np.count_nonzero(sums.diagonal()):
            return count
    return 1
