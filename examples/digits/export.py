"""Writes the network as a float ONNX model."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from examples.digits.network import INPUT, NETWORK, POOL, Layer

__all__ = ["OUTPUT", "export_float", "make_model", "operator_attributes"]

OUTPUT = "probabilities"
OPSET = 13  # the first with an axis in QuantizeLinear and DequantizeLinear
IR_VERSION = 8  # named, because the default of the onnx package moves with its version


def operator_attributes(layer: Layer) -> dict[str, Any]:
    """The ONNX attributes of a layer's operator."""
    match layer.op:
        case "Conv":
            kernel = layer.weight_shape[2]
            return {
                "kernel_shape": [kernel, kernel],
                "pads": [kernel // 2] * 4,
                "strides": [1, 1],
                "dilations": [1, 1],
                "group": 1,
            }
        case "MaxPool" | "AveragePool":
            return {"kernel_shape": [POOL, POOL], "strides": [POOL, POOL]}
        case "Flatten":
            return {"axis": 1}
        case "Gemm":
            return {"transB": 1}
    return {}


def make_model(
    name: str, nodes: list[onnx.NodeProto], constants: Mapping[str, npt.NDArray[Any]]
) -> onnx.ModelProto:
    """A checked model from (N, 1, 8, 8) float images to (N, 10) float probabilities."""
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info(INPUT, onnx.TensorProto.FLOAT, ["N", 1, 8, 8])],
        [helper.make_tensor_value_info(OUTPUT, onnx.TensorProto.FLOAT, ["N", 10])],
        [numpy_helper.from_array(value, key) for key, value in constants.items()],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="daedal-digits"
    )
    model.ir_version = IR_VERSION
    onnx.checker.check_model(model, full_check=True)
    return model


def export_float(params: Mapping[str, npt.NDArray[np.float64]]) -> onnx.ModelProto:
    """The network with its parameters as float32."""
    nodes: list[onnx.NodeProto] = []
    constants = {name: value.astype(np.float32) for name, value in params.items()}
    for layer in NETWORK:
        parameters = [f"{layer.name}.weight", f"{layer.name}.bias"] if layer.weight_shape else []
        output = f"{layer.name}_linear" if layer.relu else layer.name
        nodes.append(
            helper.make_node(
                layer.op,
                [*layer.inputs, *parameters],
                [output],
                name=output,
                **operator_attributes(layer),
            )
        )
        if layer.relu:
            nodes.append(helper.make_node("Relu", [output], [layer.name], name=layer.name))
    nodes.append(helper.make_node("Softmax", [NETWORK[-1].name], [OUTPUT], name=OUTPUT, axis=-1))
    return make_model("digits", nodes, constants)
