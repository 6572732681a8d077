"""Computes the blocks of channels of maps whose rows are joined by convolutions of their own."""

from math import prod

import numpy as np

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.ops.integer import IDENTITY, UNCHANGED
from daedal.compiler.graph.ops.registry import whole
from daedal.compiler.graph.ops.views import ROWS_VIEW

__all__ = ["split_joined_rows"]


def split_joined_rows(graph: Graph, *, block: int) -> Graph:
    """Let convolutions store their results where the joined rows lie. Exact.

    In memory, the rows of a block of channels follow each other, and the next block comes after all
    of them. So a convolution stores several blocks in one piece only if it is the only operand;
    one for each block of `block` channels stores each in its place. They load their input again, so
    this is done where that takes less time than a copy.

    Before (blocks of 16)::

        a = q_conv2d(x, w, p) ...       # int8[1,32,8,8]
        y = rows_view(a, b)

    After::

        a.block = q_conv2d(x, w.block, p.block) ...         # int8[1,16,8,8]
        a.block_1 = q_conv2d(x, w.block_1, p.block_1) ...
        y.rows = rows_view(a.block, b.block)
        y.rows_1 = rows_view(a.block_1, b.block_1)
        y = q_concat(y.rows, y.rows_1, i) channels=16,16 ...
    """
    found = {
        node.output: chains
        for node in graph.nodes
        if node.op == ROWS_VIEW.name and (chains := _chains(graph, node, block))
    }
    gone = {node.output for chains in found.values() for chain in chains for node in chain}
    builder = GraphBuilder(graph.name, graph)
    builder.copy_inputs()
    for node in graph.nodes:
        if node.output in found:
            _add(graph, builder, node, found[node.output], block)
        elif node.output not in gone:
            builder.copy_node(node)
    return builder.finish(graph.outputs)


Chain = tuple[Node, ...]
"""A convolution, and changes of scale and shape behind it that only an operand of rows reads."""


def _chains(graph: Graph, node: Node, block: int) -> list[Chain]:
    """The chains that compute all operands; none if the rows stay as they are."""
    channels = graph.types[node.output].shape[1]
    if channels <= block or len(set(node.inputs)) < len(node.inputs):
        return []
    chains = [_chain(graph, name, node) for name in node.inputs]
    found = [chain for chain in chains if chain is not None]
    hidden = all(_hides_loads(graph, chain[0], block) for chain in found)
    return found if hidden and len(found) == len(chains) else []


def _chain(graph: Graph, name: str, reader: Node) -> Chain | None:
    nodes: list[Node] = []
    while True:
        node = graph.producers.get(name)
        if node is None or name in graph.outputs or graph.users[name] != (reader,):
            return None
        nodes.insert(0, node)
        if node.op == "q_conv2d":
            return tuple(nodes) if whole(node.attrs, "groups") == 1 else None
        if node.op not in ("q_requantize", "reshape") or not _keeps_channels(graph, node):
            return None
        name, reader = node.inputs[0], node


def _keeps_channels(graph: Graph, node: Node) -> bool:
    before, after = (graph.types[name].shape for name in (node.inputs[0], node.output))
    return before[:2] == after[:2] and len(before) == len(after)


def _hides_loads(graph: Graph, conv: Node, block: int) -> bool:
    """Whether to load the input once for each block takes less time than to copy the result: it is
    hidden behind the products of a window, or the input is not larger than the result."""
    outs, ins, *kernel = graph.types[conv.inputs[1]].shape
    return prod(kernel) > 1 or ins <= 2 * block or ins <= outs


def _add(graph: Graph, builder: GraphBuilder, node: Node, chains: list[Chain], block: int) -> None:
    channels = graph.types[node.output].shape[1]
    groups = [(at, min(at + block, channels)) for at in range(0, channels, block)]
    joined = []
    for begin, end in groups:
        parts = [_add_block(graph, builder, chain, begin, end) for chain in chains]
        rows = builder.fresh_name(f"{node.output}.rows")
        joined.append(builder.add(node.op, parts, output=rows, name=node.name))
        shape = graph.types[node.output].shape
        box = ((0, 1), (begin, end), *((0, extent) for extent in shape[2:]))
        builder.remember_part(node.output, rows, shape, box)
    same = builder.constant(
        builder.fresh_name(f"{node.output}.identity"), np.repeat(IDENTITY, len(groups), axis=0)
    )
    attrs = {"channels": tuple(end - begin for begin, end in groups), **UNCHANGED}
    builder.add("q_concat", [*joined, same], attrs, output=node.output, name=node.name)


def _add_block(graph: Graph, builder: GraphBuilder, chain: Chain, begin: int, end: int) -> str:
    """The channels from `begin` to `end` of what a chain computes."""
    name = ""
    for node in chain:
        inputs, attrs = list(node.inputs), dict(node.attrs)
        if node.op == "q_conv2d":
            inputs[1:] = [_rows(graph, builder, x, begin, end) for x in inputs[1:]]
        else:
            inputs[0] = name
        shape = graph.types[node.output].shape
        if node.op == "reshape":
            attrs["shape"] = (shape[0], end - begin, *shape[2:])
        output = builder.fresh_name(f"{node.output}.block")
        name = builder.add(node.op, inputs, attrs, output=output, name=node.name)
        box = ((0, shape[0]), (begin, end), *((0, extent) for extent in shape[2:]))
        builder.remember_part(node.output, name, shape, box)
    return name


def _rows(graph: Graph, builder: GraphBuilder, name: str, begin: int, end: int) -> str:
    """Those rows of a constant."""
    values: Array = graph.constant(name)
    return builder.constant(
        builder.fresh_name(f"{name}.block"), np.ascontiguousarray(values[begin:end])
    )
