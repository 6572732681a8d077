"""Pads maps as early as possible, so that what reads them need not wait."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.fused import CONVOLUTIONS
from daedal.compiler.graph.ops.registry import get_op

__all__ = ["pads_first"]


def pads_first(graph: Graph) -> Graph:
    """Move every `q_pad` of a computed map behind the node that computes the map, and behind the
    convolutions of the map that follow it. Exact.

    Before::

        x = q_layer_norm(h, g) ...
        q = q_conv2d(x, wq, pq) ...
        k = q_conv2d(x, wk, pk) ...
        s = q_attention_weights(q, k, f) ...
        x.padded = q_pad(x, p) ...
        v = q_matmul(wv, x.padded, f, pv) ...

    After, `v` need not wait for a layer that has just begun, and nothing waits for the map's way
    through memory where `q` and `k` find it on chip::

        x = q_layer_norm(h, g) ...
        q = q_conv2d(x, wq, pq) ...
        k = q_conv2d(x, wk, pk) ...
        x.padded = q_pad(x, p) ...
        s = q_attention_weights(q, k, f) ...
        v = q_matmul(wv, x.padded, f, pv) ...
    """
    pads: dict[str, list[Node]] = defaultdict(list)
    for node in graph.nodes:
        if _is_pad(graph, node):
            pads[node.inputs[0]].append(node)
    places = _places(graph, pads)
    builder = GraphBuilder(graph.name, graph)
    builder.copy_inputs()
    for node in graph.nodes:
        behind = [] if _is_pad(graph, node) else [node]
        while behind:
            first = behind.pop(0)
            builder.copy_node(first)
            behind += [pad for name in places[first.output] for pad in pads[name]]
    return builder.finish(graph.outputs)


def _is_pad(graph: Graph, node: Node) -> bool:
    return node.op == "q_pad" and node.inputs[0] in graph.producers


def _places(graph: Graph, pads: Mapping[str, Sequence[Node]]) -> dict[str, list[str]]:
    """By the result of a node, the maps whose pads, if any, follow it."""
    found: dict[str, list[str]] = defaultdict(list)
    # A map with pads, while only convolutions of it have followed, and the last of these.
    here, last = "", ""
    for node in graph.nodes:
        if _is_pad(graph, node) or get_op(node.op).is_view:
            found[node.output].append(node.output)
            continue
        if here and _is_convolution(graph, node, here):
            last = node.output
            found[last].append(last)
            continue
        if here:
            found[last].append(here)
        here = last = node.output if node.output in pads else ""
    if here:
        found[last].append(here)
    return found


def _is_convolution(graph: Graph, node: Node, name: str) -> bool:
    """Whether a node is a convolution that reads a map and otherwise constants."""
    computed = [operand for operand in node.inputs if not graph.is_constant(operand)]
    return node.op in CONVOLUTIONS and computed == [name]
