"""`float_products`: multiply-accumulates of a node that the accelerator does not run."""

import math

import onnx

from daedal.compiler.artifact.products import count_products
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.foreign import FOREIGN, names_read

__all__ = ["float_products"]


def float_products(graph: Graph, node: Node) -> int:
    """Multiply-accumulates of a float operator, or of a node of ONNX; 0 where there are none, or
    their number is not known."""
    if node.op == FOREIGN.name:
        return _of_onnx(graph, node)
    x, *others = (graph.types[name].shape for name in node.inputs)
    result = graph.types[node.output].num_elements
    if node.op == "conv2d":
        return result * math.prod(others[0][1:])
    if node.op == "conv_transpose2d":
        return math.prod(x) * math.prod(others[0][1:])
    return result * x[-1] if node.op in ("dense", "matmul") else 0


def _of_onnx(graph: Graph, node: Node) -> int:
    proto = onnx.NodeProto.FromString(node.attrs["proto"])
    names = dict(zip(names_read(proto), node.inputs, strict=False))

    def shape_of(name: str) -> tuple[int, ...] | None:
        if name in names:
            return graph.types[names[name]].shape
        return graph.types[node.output].shape if name == proto.output[0] else None

    return count_products(proto, shape_of) or 0
