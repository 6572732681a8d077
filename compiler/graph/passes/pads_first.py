"""Pads maps as early as possible, so that what reads them need not wait."""

from collections import defaultdict

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Graph, Node

__all__ = ["pads_first"]


def pads_first(graph: Graph) -> Graph:
    """Move every `q_pad` of a computed map right behind the node that computes the map. Exact.

    Before::

        x = q_layer_norm(h, g) ...
        q = q_conv2d(x, wq, pq) ...
        k = q_conv2d(x, wk, pk) ...
        s = q_attention_weights(q, k, f) ...
        x.padded = q_pad(x, p) ...
        v = q_matmul(wv, x.padded, f, pv) ...

    After, `v` need not wait for a layer that has just begun::

        x = q_layer_norm(h, g) ...
        x.padded = q_pad(x, p) ...
        q = q_conv2d(x, wq, pq) ...
        k = q_conv2d(x, wk, pk) ...
        s = q_attention_weights(q, k, f) ...
        v = q_matmul(wv, x.padded, f, pv) ...
    """
    pads: dict[str, list[Node]] = defaultdict(list)
    for node in graph.nodes:
        if node.op == "q_pad" and node.inputs[0] in graph.producers:
            pads[node.inputs[0]].append(node)
    builder = GraphBuilder(graph.name, graph)
    builder.copy_inputs()
    for node in graph.nodes:
        behind = [node]
        while behind:
            first = behind.pop(0)
            if not builder.is_defined(first.output):
                builder.copy_node(first)
                behind += pads[first.output]
    return builder.finish(graph.outputs)
