"""Rewrites moves of channels that do not fit whole blocks as 1x1 convolutions by zeros and ones."""

import numpy as np

from daedal.common.errors import UnsupportedError
from daedal.compiler.graph.graph import Array, AttrValue, Graph, Node
from daedal.compiler.graph.ops.integer import IDENTITY, UNCHANGED, is_wide
from daedal.compiler.graph.ops.movement import pad_margins
from daedal.compiler.graph.ops.registry import ints, whole
from daedal.compiler.graph.rewrite import Rewriter, rewrite
from daedal.compiler.graph.selection import PIXELWISE

__all__ = ["align_channels"]


def align_channels(graph: Graph, *, block: int) -> Graph:
    """Let slice, pad and concat move whole blocks of `block` channels. Exact.

    The scratchpads cannot permute the lanes of a block, but a product with a matrix of zeros and
    ones can. It reads the map once and writes the result once, as a copy would. Unless the map has
    many channels, its products are hidden behind the transfers. A concat first places its operands
    at block boundaries, which leaves gaps, and one convolution closes the gaps. That moves twice
    the bytes of a concat of whole blocks.

    Before (blocks of 16)::

        y = q_pad(x, p) pads=0,8,0,0,0,8,0,0 pad_value=v ...      # x: int8[1,16,8,8]

    After::

        const y.select: int8[32,16,1,1]
        y = q_conv2d(x, y.select, y.params) pad_value=v pads=0,0,0,0 strides=1,1 ...
    """
    return rewrite(
        graph,
        {
            "q_slice": lambda graph, node: _slice(graph, node, block),
            "q_pad": lambda graph, node: _pad(graph, node, block),
            "q_concat": lambda graph, node: _concat(graph, node, block),
        },
    )


def _slice(graph: Rewriter, node: Node, block: int) -> None:
    x, params = node.inputs
    begins, ends, steps = (ints(node.attrs, name) for name in ("begins", "ends", "steps"))
    if begins[1] % block == 0 and steps[1] == 1:
        return
    shape = graph.types[x].shape
    strides = steps[2:]
    if begins[2:] != (0, 0) or ends[2:] != shape[2:]:
        attrs: dict[str, AttrValue] = {
            "begins": (0, 0, *begins[2:]),
            "ends": (*shape[:2], *ends[2:]),
            "steps": (1, 1, *strides),
            **UNCHANGED,
        }
        same = graph.fresh_constant(f"{node.output}.identity", IDENTITY)
        base = f"{node.output}.part"
        x = graph.add_fresh("q_slice", [x, same], attrs, base=base, name=node.name)
        strides = (1, 1)
    sources = range(begins[1], ends[1], steps[1])
    matrix = np.zeros((len(sources), shape[1]), dtype=np.int8)
    matrix[np.arange(len(sources)), list(sources)] = 1
    rows = np.repeat(graph.constant(params), len(sources), axis=0)
    _select(graph, node, x, matrix, rows, strides=strides)


def _pad(graph: Rewriter, node: Node, block: int) -> None:
    x, params = node.inputs
    _, (front, back), rows, columns = pad_margins(node.attrs)
    channels = graph.types[x].shape[1]
    if front % block == 0 and (back == 0 or channels % block == 0):
        return
    matrix = np.zeros((front + channels + back, channels), dtype=np.int8)
    matrix[front + np.arange(channels), np.arange(channels)] = 1
    table = np.repeat(graph.constant(params), len(matrix), axis=0)
    # A channel without products gets its value from the bias.
    table[~matrix.any(axis=1), 0] += whole(node.attrs, "pad_value")
    pads = (rows[0], columns[0], rows[1], columns[1])
    _select(graph, node, x, matrix, table, pads=pads, pad_value=node.attrs["pad_value"])


def _concat(graph: Rewriter, node: Node, block: int) -> None:
    channels = ints(node.attrs, "channels")
    *head, last = channels
    if all(count % block == 0 for count in head):
        return
    gapped = (*(-(-count // block) * block for count in head), last)
    attrs = {**node.attrs, "channels": gapped}
    base = f"{node.output}.joined"
    joined = graph.add_fresh("q_concat", node.inputs, attrs, base=base, name=node.name)
    begins = np.cumsum((0, *gapped))
    sources = [begin + np.arange(count) for begin, count in zip(begins, channels, strict=False)]
    matrix = np.zeros((sum(channels), sum(gapped)), dtype=np.int8)
    matrix[np.arange(len(matrix)), np.concatenate(sources)] = 1
    _select(graph, node, joined, matrix, np.repeat(IDENTITY, len(matrix), axis=0), **UNCHANGED)


def _select(
    graph: Rewriter, node: Node, x: str, matrix: Array, rows: Array, **attrs: AttrValue
) -> None:
    """Replace `node` by a convolution: `matrix` (outputs, inputs) times the channels of `x`,
    requantized by `rows`. Without `attrs`, it takes every pixel and is finished as `node` is."""
    if is_wide(graph.types[x]):
        raise UnsupportedError(
            f"tensors of 16 bits must move by whole blocks of channels, as products read 8 bits "
            f"({node}); slice, pad or join another axis",
            node.output,
        )
    weights = graph.fresh_constant(f"{node.output}.select", matrix[:, :, None, None])
    params = graph.fresh_constant(f"{node.output}.params", rows)
    own = {name: node.attrs[name] for name in UNCHANGED}
    graph.replace(node, [x, weights, params], {**PIXELWISE, **own, **attrs}, op="q_conv2d")
