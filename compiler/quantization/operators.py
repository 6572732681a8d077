"""The nodes that the compiler can compute on integers, and which of their operands are activations.

There are four kinds. *Products* (of activations with weights or with each other) are why a network
is quantized. *Light* operators are worth quantizing only if their operands are integers anyway.
*Moves* have results with the scale of their operands. *Norms*, softmax included, read 16 bits.
"""

import numpy as np
import onnx

from daedal.compiler.frontend.attributes import attribute
from daedal.compiler.graph.dataflow import Dataflow, first_behind
from daedal.compiler.graph.graph import Node
from daedal.compiler.graph.ops.registry import elementwise_ops, ints, whole

__all__ = [
    "BOUNDS",
    "LARGEST_ADDEND",
    "LAYERS",
    "NORMS",
    "PAIRS",
    "PRODUCTS",
    "SUMS",
    "channel_axis",
    "kind_of",
    "light_operands",
    "move_operands",
    "moved_operands",
    "norm_operand",
    "product_operands",
]

BOUNDS = ("clip", "relu")
"""Operators that become bounds of the one before."""

LAYERS = ("conv2d", "conv_transpose2d", "dense")
"""Products with weights."""

PRODUCTS = (*LAYERS, "matmul")

NORMS = ("layer_norm", "rms_norm")

SUMS = ("add", "sub")

PAIRS = elementwise_ops(num_operands=2)
"""Elementwise operators of two operands."""

_MOVES = ("concat", "max_pool", "pad", "reshape", "resize", "slice", "transpose")

_VIEWS = ("reshape", "transpose")

_LIGHT = ("avg_pool", "clip", "leaky_relu", "relu", "Gelu", "HardSwish", "Sigmoid", "Tanh")
"""Those of one operand."""

LARGEST_ADDEND = 4096.0
"""Of constants that are added on integers. Masks of attention have -1e4 or less."""


def kind_of(node: Node) -> str:
    """The operator of a node: of the graph (``conv2d``), or of ONNX (``Erf``)."""
    return str(node.attrs["op_type"]) if node.op == "onnx" else node.op


def product_operands(graph: Dataflow, node: Node) -> tuple[str, ...]:
    """Activations that a product reads; empty if `node` is not a quantizable product."""
    if node.op == "matmul":
        return () if any(map(graph.is_constant, node.inputs)) else node.inputs
    if node.op not in LAYERS or graph.is_constant(node.inputs[0]):
        return ()
    return node.inputs[:1] if all(map(graph.is_constant, node.inputs[1:])) else ()


def light_operands(graph: Dataflow, node: Node) -> tuple[str, ...]:
    """Activations that a light operator reads; empty if `node` is not a quantizable one."""
    if not node.inputs or graph.types[node.inputs[0]].dtype != "float32":
        return ()
    if kind_of(node) in _LIGHT:
        return node.inputs[:1] if _has_known_form(graph, node) else ()
    if node.op not in PAIRS:
        return ()
    if node.op in SUMS and any(_is_mask(graph, name) for name in node.inputs):
        return ()
    activations = tuple(name for name in node.inputs if not graph.is_constant(name))
    return activations if _broadcasts(graph, node) else ()


def move_operands(graph: Dataflow, node: Node) -> tuple[str, ...]:
    """Activations that a move reads; empty if `node` is not a quantizable move."""
    if node.op not in _MOVES:
        return ()
    operands = moved_operands(node)
    if any(map(graph.is_constant, operands)) or graph.types[operands[0]].dtype != "float32":
        return ()
    return operands


def moved_operands(node: Node) -> tuple[str, ...]:
    """The operands of a move that hold elements; the others are parameters."""
    return node.inputs if node.op == "concat" else node.inputs[:1]


def norm_operand(graph: Dataflow, node: Node) -> str | None:
    """What a softmax or a norm over the last axis reads; None if `node` is none that integers can
    compute."""
    if node.op not in (*NORMS, "softmax") or graph.is_constant(node.inputs[0]):
        return None
    x, *parameters = node.inputs
    if node.op == "softmax" and ints(node.attrs, "axes") != (graph.types[x].rank - 1,):
        return None
    return x if all(map(graph.is_constant, parameters)) else None


def channel_axis(layer: Node) -> int:
    """Axis of the output channels in the weights of a product."""
    is_first = layer.op == "conv2d" or (layer.op == "dense" and whole(layer.attrs, "transposed"))
    return 0 if is_first else 1


def _is_mask(graph: Dataflow, name: str) -> bool:
    """Whether a constant has addends so large that they are to replace what they are added to: in
    8 bits their sums would leave no steps for the others."""
    if not graph.is_constant(name):
        return False
    return not bool(np.all(np.abs(graph.constant(name)) <= LARGEST_ADDEND))


def _has_known_form(graph: Dataflow, node: Node) -> bool:
    """Whether the node is in a form that can be computed on integers."""
    if node.op == "avg_pool":
        return not _centres(graph, node)
    if kind_of(node) != "Gelu":
        return True
    proto = onnx.NodeProto.FromString(node.attrs["proto"])
    return bool(attribute(proto, "approximate", b"none") == b"none")


def _centres(graph: Dataflow, pool: Node) -> bool:
    """Whether a mean is subtracted from what it is the mean of, as in a norm written out: the
    differences are small."""
    source = first_behind(graph, pool.inputs[0], _VIEWS)
    left = [pool.output]
    while left:
        for user in graph.users[left.pop()]:
            if user.op == "sub" and user.inputs[0] == source:
                return True
            left += [user.output] if user.op in _VIEWS else []
    return False


def _broadcasts(graph: Dataflow, node: Node) -> bool:
    """Whether one activation has the result's shape, and the other operand is constant or has the
    same batch and channels."""
    shape = graph.types[node.output].shape
    shapes = [graph.types[name].shape for name in node.inputs if not graph.is_constant(name)]
    if shape not in shapes:
        return False
    return all(len(other) == len(shape) and other[:2] == shape[:2] for other in shapes)
