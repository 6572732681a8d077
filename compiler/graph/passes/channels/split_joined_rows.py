"""Computes the blocks of channels of maps whose rows are joined by convolutions of their own."""

from math import prod

import numpy as np

from daedal.compiler.graph.dataflow import Dataflow, sole_producer
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.integer import IDENTITY, UNCHANGED
from daedal.compiler.graph.ops.registry import whole
from daedal.compiler.graph.ops.views import ROWS_VIEW
from daedal.compiler.graph.rewrite import Rewriter, rewrite
from daedal.isa.tensor import Box

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
    return rewrite(graph, {ROWS_VIEW.name: lambda graph, node: _split(graph, node, block)})


Chain = tuple[Node, ...]
"""A convolution, and changes of scale and shape behind it that only an operand of rows reads."""


def _chains(graph: Dataflow, node: Node, block: int) -> list[Chain]:
    """The chains that compute all operands; none if the rows stay as they are."""
    channels = graph.types[node.output].shape[1]
    if channels <= block or len(set(node.inputs)) < len(node.inputs):
        return []
    chains = [_chain(graph, name) for name in node.inputs]
    found = [chain for chain in chains if chain is not None]
    hidden = all(_hides_loads(graph, chain[0], block) for chain in found)
    return found if hidden and len(found) == len(chains) else []


def _chain(graph: Dataflow, name: str) -> Chain | None:
    nodes: list[Node] = []
    while node := sole_producer(graph, name, ("q_conv2d", "q_requantize", "reshape")):
        nodes.insert(0, node)
        if node.op == "q_conv2d":
            return tuple(nodes) if whole(node.attrs, "groups") == 1 else None
        if not _keeps_channels(graph, node):
            return None
        name = node.inputs[0]
    return None


def _keeps_channels(graph: Dataflow, node: Node) -> bool:
    before, after = (graph.types[name].shape for name in (node.inputs[0], node.output))
    return before[:2] == after[:2] and len(before) == len(after)


def _hides_loads(graph: Dataflow, conv: Node, block: int) -> bool:
    """Whether to load the input once for each block takes less time than to copy the result: it is
    hidden behind the products of a window, or the input is not larger than the result."""
    outs, ins, *kernel = graph.types[conv.inputs[1]].shape
    return prod(kernel) > 1 or ins <= 2 * block or ins <= outs


def _split(graph: Rewriter, node: Node, block: int) -> None:
    chains = _chains(graph, node, block)
    if not chains:
        return
    shape = graph.types[node.output].shape
    groups = [(at, min(at + block, shape[1])) for at in range(0, shape[1], block)]
    joined = []
    for part in groups:
        blocks = [_add_block(graph, chain, part) for chain in chains]
        base = f"{node.output}.rows"
        joined.append(graph.add_fresh(node.op, blocks, base=base, name=node.name))
        graph.remember_part(node.output, joined[-1], shape, _box(shape, part))
    rows = np.repeat(IDENTITY, len(groups), axis=0)
    same = graph.fresh_constant(f"{node.output}.identity", rows)
    attrs = {"channels": tuple(end - begin for begin, end in groups), **UNCHANGED}
    graph.add("q_concat", [*joined, same], attrs, output=node.output, name=node.name)


def _add_block(graph: Rewriter, chain: Chain, part: tuple[int, int]) -> str:
    """A range of the channels that a chain computes."""
    name = ""
    for node in chain:
        inputs, attrs = [name, *node.inputs[1:]], dict(node.attrs)
        shape = graph.types[node.output].shape
        if node.op == "q_conv2d":
            constants = ((x, graph.constant(x)[slice(*part)]) for x in inputs[1:])
            inputs = [
                node.inputs[0],
                *(graph.fresh_constant(f"{x}.block", values) for x, values in constants),
            ]
        elif node.op == "reshape":
            attrs["shape"] = (shape[0], part[1] - part[0], *shape[2:])
        base = f"{node.output}.block"
        name = graph.add_fresh(node.op, inputs, attrs, base=base, name=node.name)
        graph.remember_part(node.output, name, shape, _box(shape, part))
    return name


def _box(shape: tuple[int, ...], part: tuple[int, int]) -> Box:
    """A range of channels of a map with one image."""
    return ((0, shape[0]), part, *((0, extent) for extent in shape[2:]))
