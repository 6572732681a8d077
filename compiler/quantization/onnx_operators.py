"""The nodes that the compiler can compute on integers, and which of their operands are activations.

There are four kinds. *Products* (of activations with weights or with each other) are why a network
is quantized. *Light* operators are worth quantizing only if their operands are integers anyway.
*Moves* have results with the scale of their operands. *Norms*, softmax included, read 16 bits.
"""

from collections.abc import Iterable, Mapping

import numpy as np
import onnx

from daedal.compiler.frontend.attributes import attribute
from daedal.compiler.graph.layout import MAP_RANK
from daedal.compiler.quantization.network import Network

__all__ = [
    "BOUNDS",
    "LARGEST_ADDEND",
    "NORMS",
    "VIEWS",
    "Types",
    "channel_axis",
    "light_operands",
    "move_operands",
    "moved_operands",
    "norm_operand",
    "product_operands",
]

Types = Mapping[str, tuple[int, tuple[int, ...]]]

BOUNDS = ("Clip", "Relu")
"""Operators that become bounds of the one before."""

_FLOAT = onnx.TensorProto.FLOAT

NORMS = ("LayerNormalization", "RMSNormalization")

VIEWS = ("Flatten", "Reshape", "Squeeze", "Unsqueeze")
"""Moves that keep the order of the elements."""

_FIRST_OPERAND_MOVES = (
    "Flatten",
    "GlobalMaxPool",
    "MaxPool",
    "Pad",
    "ReduceMax",
    "Reshape",
    "Resize",
    "Slice",
    "Squeeze",
    "Transpose",
    "Unsqueeze",
    "Upsample",
)

_LIGHT = (
    "AveragePool",
    "Clip",
    "Gelu",
    "GlobalAveragePool",
    "HardSwish",
    "LeakyRelu",
    "ReduceMean",
    "Relu",
    "Sigmoid",
    "Tanh",
)

LARGEST_ADDEND = 4096.0
"""Of constants that are added on integers. Masks of attention have -1e4 or less."""

_POOLS = ("AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool", "ReduceMax", "ReduceMean")


def product_operands(network: Network, types: Types, node: onnx.NodeProto) -> tuple[str, ...]:
    """Activations that a product reads; empty if `node` is not a quantizable product."""
    if node.op_type in ("Conv", "ConvTranspose", "Gemm"):
        fits = _is_quantizable_layer(network, types, node)
        return (node.input[0],) if fits else ()
    if node.op_type != "MatMul" or not _are_floats(types, node.input):
        return ()
    if node.input[1] in network.constants:
        fits = network.constants[node.input[1]].ndim == 2
        return (node.input[0],) if fits and node.input[0] not in network.constants else ()
    return () if node.input[0] in network.constants else tuple(node.input)


def light_operands(network: Network, types: Types, node: onnx.NodeProto) -> tuple[str, ...]:
    """Activations that a light operator reads; empty if `node` is not a quantizable one."""
    if not node.input or not _are_floats(types, node.input[:1]):
        return ()
    if node.op_type in _LIGHT:
        return (node.input[0],) if _has_known_form(network, types, node) else ()
    if node.op_type not in ("Add", "Mul", "Sub") or not _are_floats(types, node.input):
        return ()
    activations = tuple(name for name in node.input if name not in network.constants)
    if node.op_type != "Mul" and any(_is_mask(network, name) for name in node.input):
        return ()
    return activations if _broadcasts(network, types, node) else ()


def move_operands(network: Network, types: Types, node: onnx.NodeProto) -> tuple[str, ...]:
    """Activations that a move reads; empty if `node` is not a quantizable move."""
    if node.op_type != "Concat" and node.op_type not in _FIRST_OPERAND_MOVES:
        return ()
    operands = tuple(node.input[index] for index in moved_operands(node))
    if any(name in network.constants for name in operands) or not _are_floats(types, operands):
        return ()
    return operands if _has_known_form(network, types, node) else ()


def moved_operands(node: onnx.NodeProto) -> tuple[int, ...]:
    """Indices of a move's operands that hold elements; the others are parameters."""
    return tuple(range(len(node.input))) if node.op_type == "Concat" else (0,)


def norm_operand(network: Network, types: Types, node: onnx.NodeProto) -> str | None:
    """What a softmax or a norm over the last axis reads; None if `node` is none that integers can
    compute."""
    if node.op_type not in (*NORMS, "Softmax") or not _are_floats(types, node.input):
        return None
    x, *parameters = node.input
    last = (-1, len(types[x][1]) - 1)
    if x in network.constants or any(node.output[1:]) or attribute(node, "axis", -1) not in last:
        return None
    vectors = (network.constants.get(name) for name in parameters if name)
    return x if all(value is not None and value.ndim == 1 for value in vectors) else None


def channel_axis(layer: onnx.NodeProto) -> int:
    """Axis of the output channels in the weights of a product."""
    if layer.op_type == "Conv" or (layer.op_type == "Gemm" and attribute(layer, "transB", 0)):
        return 0
    return 1


def _is_mask(network: Network, name: str) -> bool:
    """Whether a constant has addends so large that they are to replace what they are added to: in
    8 bits their sums would leave no steps for the others."""
    value = network.constants.get(name)
    return value is not None and not bool(np.all(np.abs(value) <= LARGEST_ADDEND))


def _are_floats(types: Types, names: Iterable[str]) -> bool:
    return all(name in types and types[name][0] == _FLOAT for name in names)


def _is_quantizable_layer(network: Network, types: Types, node: onnx.NodeProto) -> bool:
    """Whether a layer has one or two dimensions, and constant weights and bias."""
    if not _are_floats(types, node.input[:2]) or node.input[0] in network.constants:
        return False
    if not all(name in network.constants for name in node.input[1:] if name):
        return False
    rank = len(types[node.input[0]][1])
    if node.op_type != "Gemm":
        grouped = node.op_type == "ConvTranspose" and attribute(node, "group", 1) != 1
        return rank in (MAP_RANK - 1, MAP_RANK) and not grouped
    if len(node.input) > 2 and node.input[2]:
        channels = types[node.input[1]][1][channel_axis(node)]
        if network.constants[node.input[2]].size not in (1, channels):
            return False
    factors = attribute(node, "alpha", 1.0), attribute(node, "beta", 1.0)
    return rank == 2 and not attribute(node, "transA", 0) and factors == (1.0, 1.0)


def _has_known_form(network: Network, types: Types, node: onnx.NodeProto) -> bool:
    """Whether the node is in a form that can be computed on integers."""
    rank = len(types[node.input[0]][1])
    if node.op_type in _POOLS and (rank not in (MAP_RANK - 1, MAP_RANK) or any(node.output[1:])):
        return False
    if node.op_type in ("ReduceMax", "ReduceMean"):
        axes = attribute(node, "axes")
        if axes is None and len(node.input) > 1:
            axes = network.constants.get(node.input[1])
        reduced = set() if axes is None else {int(axis) % rank for axis in axes}
        if reduced == set(range(1, rank - 1)):
            return True  # all pixels, or all tokens, where channels come last
        if rank < MAP_RANK and attribute(node, "keepdims", 1):
            return False  # a mean for each row of tokens, as in a layer norm written out
        return axes is not None and reduced <= set(range(2, rank))
    if node.op_type == "Pad":
        return bool(attribute(node, "mode", b"constant") == b"constant")
    if node.op_type in ("Resize", "Upsample"):
        return bool(attribute(node, "mode", b"nearest") == b"nearest")
    if node.op_type == "Gelu":
        return bool(attribute(node, "approximate", b"none") == b"none")
    if node.op_type == "Clip":
        return all(name in network.constants for name in node.input[1:] if name)
    return True


def _broadcasts(network: Network, types: Types, node: onnx.NodeProto) -> bool:
    """Whether one activation has the result's shape, and the other operand is constant or has the
    same batch and channels."""
    shape = types.get(node.output[0], (0, ()))[1]
    shapes = [types[name][1] for name in node.input if name not in network.constants]
    if shape not in shapes:
        return False
    return all(len(other) == len(shape) and other[:2] == shape[:2] for other in shapes)
