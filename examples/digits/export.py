"""Writes the network as a float ONNX model."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from examples.digits.network import INPUT, NETWORK, POOL, Layer

__all__ = ["export_float"]

OUTPUT = "probabilities"
OPSET = 13  # the quantizer's: the first with an axis in QuantizeLinear and DequantizeLinear
IR_VERSION = 8  # named, because the default of the onnx package moves with its version


def _attributes(layer: Layer) -> dict[str, Any]:
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


def export_float(params: Mapping[str, npt.NDArray[np.float64]]) -> onnx.ModelProto:
    """The network with its parameters as float32, as a checked model.

    From (N, 1, 8, 8) float images to (N, 10) float probabilities.
    """
    nodes: list[onnx.NodeProto] = []
    for layer in NETWORK:
        parameters = [f"{layer.name}.weight", f"{layer.name}.bias"] if layer.weight_shape else []
        output = f"{layer.name}_linear" if layer.relu else layer.name
        nodes.append(
            helper.make_node(
                layer.op,
                [*layer.inputs, *parameters],
                [output],
                name=output,
                **_attributes(layer),
            )
        )
        if layer.relu:
            nodes.append(helper.make_node("Relu", [output], [layer.name], name=layer.name))
    nodes.append(helper.make_node("Softmax", [NETWORK[-1].name], [OUTPUT], name=OUTPUT, axis=-1))
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info(INPUT, onnx.TensorProto.FLOAT, ["N", 1, 8, 8])],
        [helper.make_tensor_value_info(OUTPUT, onnx.TensorProto.FLOAT, ["N", 10])],
        [numpy_helper.from_array(value.astype(np.float32), key) for key, value in params.items()],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="daedal-digits"
    )
    model.ir_version = IR_VERSION
    onnx.checker.check_model(model, full_check=True)
    return model
