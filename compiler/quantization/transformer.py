"""Decides whether a model is quantized as a transformer."""

from daedal.compiler.graph.graph import Graph
from daedal.compiler.quantization.operators import NORMS, norm_operand, product_operands

__all__ = ["is_transformer"]


def is_transformer(graph: Graph) -> bool:
    """Whether a graph has norms over the last axis, or products of what a softmax gives: any other
    is quantized to 8 bits throughout."""
    for node in graph.nodes:
        if norm_operand(graph, node) is None:
            continue
        readers = [*graph.users[node.output]]
        for turned in [reader for reader in readers if reader.op == "transpose"]:
            readers += graph.users[turned.output]
        if node.op in NORMS or any(len(product_operands(graph, x)) > 1 for x in readers):
            return True
    return False
