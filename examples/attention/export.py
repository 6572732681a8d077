"""Writes the transformer as a float ONNX model, with the operators that frameworks export."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from examples.attention.layers import EPSILON
from examples.attention.network import BLOCKS, CHANNELS, HEADS, PATCH, TOKENS
from examples.digits.network import INPUT

__all__ = ["export_float"]

OUTPUT = "probabilities"
OPSET = 17  # the first with LayerNormalization
IR_VERSION = 8  # named, because the default of the onnx package moves with its version


class _Writer:
    """Nodes and constants, in the order of the network."""

    def __init__(self, params: Mapping[str, npt.NDArray[np.float64]]) -> None:
        self.params = params
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, npt.NDArray[np.generic]] = {}

    def op(self, kind: str, name: str, *inputs: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def constant(self, name: str, value: npt.ArrayLike, dtype: type = np.float32) -> str:
        self.constants[name] = np.asarray(value, dtype)
        return name

    def parameter(self, name: str) -> str:
        return self.constant(name, self.params[name])

    def linear(self, name: str, x: str) -> str:
        product = self.op("MatMul", f"{name}_product", x, self.parameter(f"{name}.weight"))
        return self.op("Add", name, product, self.parameter(f"{name}.bias"))

    def norm(self, name: str, x: str) -> str:
        parameters = (self.parameter(f"{name}.{part}") for part in ("gamma", "beta"))
        return self.op("LayerNormalization", name, x, *parameters, axis=-1, epsilon=EPSILON)

    def attention(self, block: str, x: str) -> str:
        shape = self.constant("heads", [1, TOKENS, HEADS, CHANNELS // HEADS], np.int64)
        orders = {"query": (0, 2, 1, 3), "key": (0, 2, 3, 1), "value": (0, 2, 1, 3)}
        heads = []
        for part, order in orders.items():
            split = self.op(
                "Reshape", f"{block}.{part}_split", self.linear(f"{block}.{part}", x), shape
            )
            heads.append(self.op("Transpose", f"{block}.{part}_heads", split, perm=order))
        scores = self.op("MatMul", f"{block}.scores", heads[0], heads[1])
        scale = self.constant("scale", (CHANNELS // HEADS) ** -0.5)
        scaled = self.op("Mul", f"{block}.scaled", scores, scale)
        probabilities = self.op("Softmax", f"{block}.probabilities", scaled, axis=-1)
        mixed = self.op("MatMul", f"{block}.mixed_heads", probabilities, heads[2])
        turned = self.op("Transpose", f"{block}.mixed_tokens", mixed, perm=(0, 2, 1, 3))
        joined = self.constant("joined", [1, TOKENS, CHANNELS], np.int64)
        return self.linear(f"{block}.out", self.op("Reshape", f"{block}.mixed", turned, joined))

    def mlp(self, block: str, x: str) -> str:
        hidden = self.linear(f"{block}.fc1", x)
        root = self.op("Mul", f"{block}.root", hidden, self.constant("half_root", 0.5**0.5))
        erf = self.op("Erf", f"{block}.erf", root)
        share = self.op("Add", f"{block}.share", erf, self.constant("one", 1))
        half = self.op("Mul", f"{block}.half", hidden, self.constant("half", 0.5))
        return self.linear(f"{block}.fc2", self.op("Mul", f"{block}.gelu", half, share))


def export_float(params: Mapping[str, npt.NDArray[np.float64]]) -> onnx.ModelProto:
    """The network with its parameters as float32, as a checked model.

    From a (1, 1, 8, 8) float image to (1, 10) float probabilities.
    """
    net = _Writer(params)
    weight = params["embed.weight"].T.reshape(CHANNELS, 1, PATCH, PATCH)
    patches = net.op(
        "Conv",
        "embed",
        INPUT,
        net.constant("embed.weight", weight),
        net.parameter("embed.bias"),
        kernel_shape=[PATCH, PATCH],
        strides=[PATCH, PATCH],
    )
    flat = net.op("Reshape", "flat", patches, net.constant("map", [1, CHANNELS, TOKENS], np.int64))
    tokens = net.op("Transpose", "tokens", flat, perm=(0, 2, 1))
    x = net.op("Add", "embedded", tokens, net.parameter("position"))
    for block in (f"block{number}" for number in range(BLOCKS)):
        x = net.op("Add", f"{block}.mid", x, net.attention(block, net.norm(f"{block}.norm1", x)))
        x = net.op("Add", f"{block}.end", x, net.mlp(block, net.norm(f"{block}.norm2", x)))
    mean = net.op("ReduceMean", "mean", net.norm("norm", x), axes=[1], keepdims=0)
    net.op("Softmax", OUTPUT, net.linear("head", mean), axis=-1)
    graph = helper.make_graph(
        net.nodes,
        "attention",
        [helper.make_tensor_value_info(INPUT, onnx.TensorProto.FLOAT, [1, 1, 8, 8])],
        [helper.make_tensor_value_info(OUTPUT, onnx.TensorProto.FLOAT, [1, 10])],
        [numpy_helper.from_array(value, name) for name, value in net.constants.items()],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="daedal-attention"
    )
    model.ir_version = IR_VERSION
    onnx.checker.check_model(model, full_check=True)
    return model
