"""The operators of the graph language, one module per family; importing registers them all."""

from daedal.compiler.graph.ops import (
    batch_norm,
    conv_transpose,
    convolution,
    convolution_add,
    elementwise,
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
from daedal.compiler.graph.ops.registry import OpDef, get_op, list_ops

__all__ = [
    "OpDef",
    "batch_norm",
    "conv_transpose",
    "convolution",
    "convolution_add",
    "elementwise",
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
