"""Multiplies by weights of more than 8 bits with several products by 8-bit weights."""

from collections.abc import Sequence

import numpy as np

from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.ops.integer import IDENTITY, UNCHANGED
from daedal.compiler.graph.ops.registry import whole
from daedal.compiler.graph.rewrite import Rewriter, rewrite
from daedal.compiler.graph.selection import add_selection

__all__ = ["split_wide_weights"]


def split_wide_weights(graph: Graph, *, block: int) -> Graph:
    """Repeat channels of convolutions with wide weights, one copy for each int8 part. Exact.

    uint8 weights less their zero point need 9 bits. They are sums of int8 weights, so a product
    with one is a sum of products of the same channel with int8 weights. Only weights beyond int8
    have a second part. If the zero point is near 128, these are few, and only the input channels
    that have such weights are repeated. Convolutions that read the same map share the repetition.
    With groups, all channels are repeated. A map of whole blocks of `block` channels is not copied
    for that: the repeated channels are appended to it.

    Before::

        y = q_conv2d(x, w, p) groups=1 ...              # x: int8[1,32,8,8], w: int16[16,32,3,3]

    After, if 5 input channels have weights beyond int8::

        const x.again.select: int8[37,32,1,1]
        const w.parts: int8[16,37,3,3]
        x.again = q_conv2d(x, x.again.select, x.again.params) ...
        y = q_conv2d(x.again, w.parts, p) groups=1 ...
    """
    parts = {
        node.output: _parts(graph.constant(node.inputs[1]))
        for node in graph.nodes
        if node.op == "q_conv2d" and graph.types[node.inputs[1]].dtype != "int8"
    }
    wanted: dict[tuple[str, int], list[set[int]]] = {}
    for name, values in parts.items():
        key = _key(graph.producers[name])
        _add_copies(wanted.setdefault(key, []), values, grouped=key[1] > 1)
    repeated: dict[tuple[str, int], str] = {}

    def split(graph: Rewriter, node: Node) -> None:
        _, weights, params = node.inputs
        if graph.types[weights].dtype == "int8":
            return
        key = _key(node)
        copies = [sorted(channels) for channels in wanted[key]]
        if key not in repeated:
            repeated[key] = _repeat(graph, node, *key, copies, block)
        name = graph.fresh_constant(f"{weights}.parts", _joined(parts[node.output], copies))
        graph.replace(node, [repeated[key], name, params])

    return rewrite(graph, {"q_conv2d": split})


def _key(node: Node) -> tuple[str, int]:
    """The map that a convolution reads, and its number of groups: what a repetition is for."""
    return node.inputs[0], whole(node.attrs, "groups")


def _add_copies(copies: list[set[int]], parts: Sequence[Array], *, grouped: bool) -> None:
    """Add the input channels (of a group) that each part multiplies to those of `copies`. The first
    part multiplies all, and so does every part of a grouped convolution."""
    for number, part in enumerate(parts):
        every = number == 0 or grouped
        channels = range(part.shape[1]) if every else np.flatnonzero(part.any(axis=(0, 2, 3)))
        if number == len(copies):
            copies.append(set())
        copies[number].update(int(channel) for channel in channels)


def _joined(parts: Sequence[Array], copies: Sequence[Sequence[int]]) -> Array:
    """The weights of all copies of the input channels; 0 where a convolution has fewer parts."""
    zeros = np.zeros_like(parts[0])
    return np.concatenate(
        [
            (parts[number] if number < len(parts) else zeros)[:, channels]
            for number, channels in enumerate(copies)
        ],
        axis=1,
    )


def _parts(weights: Array) -> list[Array]:
    """int8 weights that add up to the wide ones."""
    parts: list[Array] = []
    rest = weights.astype(np.int64)
    while rest.any() or not parts:
        parts.append(np.clip(rest, -128, 127).astype(np.int8))
        rest = rest - parts[-1]
    return parts


def _repeat(
    graph: Rewriter, node: Node, x: str, groups: int, copies: Sequence[Sequence[int]], block: int
) -> str:
    """The channels of every group of `x` that `copies` lists, one list after the other."""
    count = graph.types[x].shape[1]
    if groups == 1 and count % block == 0:
        more = np.concatenate([np.array(channels, dtype=np.int64) for channels in copies[1:]])
        tail = add_selection(graph, x, more, graph.fresh_name(f"{x}.more"), node.name)
        params = graph.fresh_constant(f"{x}.again.params", np.repeat(IDENTITY, 2, axis=0))
        attrs = {"channels": (count, len(more)), **UNCHANGED}
        base = f"{x}.again"
        return graph.add_fresh("q_concat", [x, tail, params], attrs, base=base, name=node.name)
    each = np.concatenate([np.array(channels, dtype=np.int64) for channels in copies])
    first = np.arange(groups)[:, None] * (count // groups)
    wanted = (first + each).reshape(-1)
    return add_selection(graph, x, wanted, graph.fresh_name(f"{x}.again"), node.name)
