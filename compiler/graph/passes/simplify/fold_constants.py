"""Evaluates nodes whose operands are all constant."""

import numpy as np

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.ops.foreign import FOREIGN
from daedal.compiler.graph.ops.registry import get_op

__all__ = ["fold_constants"]


def fold_constants(graph: Graph, keep_quantized: bool = True) -> Graph:
    """Replace nodes over constants by their value.

    Parameters
    ----------
    graph : any graph.
    keep_quantized : leave `dequantize` of a constant as it is, so that `lower_qdq` still finds
        the integers. The nodes that depend on it stay too.

    Before::

        const w: float32[16,3,3,3]
        w_q = quantize(w, s, z) axis=0

    After::

        const w_q: int8[16,3,3,3]
    """
    builder = GraphBuilder(graph.name, graph)
    builder.copy_inputs()
    folded: dict[str, Array] = {name: graph.constant(name) for name in graph.constants}
    for node in graph.nodes:
        # ONNX operators that the importer could not evaluate stay on the host.
        foldable = node.op != FOREIGN.name and all(name in folded for name in node.inputs)
        if foldable and not (keep_quantized and node.op == "dequantize"):
            folded[node.output] = _evaluate(graph, node, folded)
            builder.constant(node.output, folded[node.output], graph.types[node.output])
        else:
            builder.copy_node(node)
    return builder.finish(graph.outputs)


def _evaluate(graph: Graph, node: Node, values: dict[str, Array]) -> Array:
    types = [graph.types[name] for name in node.inputs]
    result = get_op(node.op).evaluate([values[name] for name in node.inputs], types, node.attrs)
    return np.ascontiguousarray(result).reshape(result.shape)
