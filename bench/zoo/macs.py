"""Multiply-accumulates of a float model, from its shapes."""

from math import prod

import onnx
from onnx import helper, shape_inference

__all__ = ["model_macs"]

SHAPE_ELEMENTS = 16
"""Constants of at most so many numbers may say a shape; larger ones are weights."""


def model_macs(model: onnx.ModelProto) -> int:
    """Products of all convolutions and dense layers, those with padding included."""
    shapes = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    graph = shape_inference.infer_shapes(_skeleton(model), strict_mode=True).graph
    for item in (*graph.value_info, *graph.input, *graph.output):
        dims = item.type.tensor_type.shape.dim
        shapes[item.name] = tuple(dim.dim_value for dim in dims)
    total = 0
    for node in graph.node:
        if node.op_type in ("Conv", "Gemm"):
            weight, result = shapes[node.input[1]], shapes[node.output[0]]
            # Axis 0 of both kinds of weights counts outputs; the rest goes into each of them.
            total += prod(result) * prod(weight[1:])
    return total


def _skeleton(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with its weights as inputs: shape inference copies all that it is given."""
    graph = model.graph
    small = [item for item in graph.initializer if prod(item.dims) <= SHAPE_ELEMENTS]
    names = {item.name for item in small}
    weights = [
        helper.make_tensor_value_info(item.name, item.data_type, item.dims)
        for item in graph.initializer
        if item.name not in names
    ]
    inputs = [*graph.input, *weights]
    bare = helper.make_graph(graph.node, graph.name, inputs, graph.output, small)
    return helper.make_model(bare, opset_imports=model.opset_import, ir_version=model.ir_version)
