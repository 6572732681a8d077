"""Multiplies by weights of more than 8 bits with several products by 8-bit weights."""

import numpy as np

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.ops.registry import whole
from daedal.compiler.graph.selection import add_selection

__all__ = ["split_wide_weights"]


def split_wide_weights(graph: Graph) -> Graph:
    """Repeat the channels of convolutions with wide weights, one copy for each int8 part. Exact.

    uint8 weights less their zero point need 9 bits. They are sums of int8 weights, so a product
    with one is a sum of products of the same channel with int8 weights.

    Before::

        y = q_conv2d(x, w, p) groups=1 ...              # x: int8[1,32,8,8], w: int16[16,32,3,3]

    After::

        const x.again.select: int8[64,32,1,1]
        const w.parts: int8[16,64,3,3]
        x.again = q_conv2d(x, x.again.select, x.again.params) ...
        y = q_conv2d(x.again, w.parts, p) groups=1 ...
    """
    builder = GraphBuilder(graph.name, graph)
    builder.copy_inputs()
    repeated: dict[tuple[str, int, int], str] = {}
    for node in graph.nodes:
        if node.op != "q_conv2d" or graph.types[node.inputs[1]].dtype == "int8":
            builder.copy_node(node)
            continue
        x, weights, params = node.inputs
        parts = _parts(graph.constant(weights))
        key = x, whole(node.attrs, "groups"), len(parts)
        if key not in repeated:
            repeated[key] = _repeat(builder, node, *key)
        name = builder.constant(
            builder.fresh_name(f"{weights}.parts"), np.concatenate(parts, axis=1)
        )
        operands = [repeated[key], name, params]
        builder.add(node.op, operands, node.attrs, output=node.output, name=node.name)
    return builder.finish(graph.outputs)


def _parts(weights: Array) -> list[Array]:
    """int8 weights that add up to the wide ones."""
    parts: list[Array] = []
    rest = weights.astype(np.int64)
    while rest.any() or not parts:
        parts.append(np.clip(rest, -128, 127).astype(np.int8))
        rest = rest - parts[-1]
    return parts


def _repeat(builder: GraphBuilder, node: Node, x: str, groups: int, times: int) -> str:
    """Repeat the channels of every group of `x` `times` times."""
    channels = np.arange(builder.types[x].shape[1]).reshape(groups, 1, -1)
    wanted = np.repeat(channels, times, axis=1).reshape(-1)
    return add_selection(builder, x, wanted, builder.fresh_name(f"{x}.again"), node.name)
