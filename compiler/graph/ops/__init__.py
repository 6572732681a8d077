"""The operators of the graph language, one module per family; importing registers them all."""

from daedal.compiler.graph.ops import (
    conv_transpose,
    convolution,
    elementwise,
    fused,
    integer_convolution,
    integer_elementwise,
    integer_movement,
    integer_pooling,
    lookup,
    matmul,
    movement,
    packing,
    pooling,
    quantization,
    shape,
)
from daedal.compiler.graph.ops.registry import OpClass, OpDef, get_op, list_ops

__all__ = [
    "OpClass",
    "OpDef",
    "conv_transpose",
    "convolution",
    "elementwise",
    "fused",
    "get_op",
    "integer_convolution",
    "integer_elementwise",
    "integer_movement",
    "integer_pooling",
    "list_ops",
    "lookup",
    "matmul",
    "movement",
    "packing",
    "pooling",
    "quantization",
    "shape",
]
