"""`FloatModel`: builds float ONNX models layer by layer, with seeded weights."""

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from bench.zoo.images import SIZE
from bench.zoo.weights import Role, draw

__all__ = ["IMAGE", "IR_VERSION", "OPSET", "FloatModel"]

OPSET = 17
IR_VERSION = 8
IMAGE = "image"
"""The input of every network, (1, 3, 224, 224) float32."""


class FloatModel:
    """Collects nodes; every method that adds some returns the name of their result."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._nodes: list[onnx.NodeProto] = []
        self._initializers: list[onnx.TensorProto] = []

    def constant(self, name: str, value: npt.NDArray[Any]) -> str:
        """An initializer."""
        self._initializers.append(numpy_helper.from_array(value, name))
        return name

    def drawn(self, name: str, role: Role, shape: tuple[int, ...]) -> str:
        """An initializer with seeded values."""
        return self.constant(name, draw(self._rng, role, shape))

    def op(self, op_type: str, name: str, *inputs: str, **attributes: Any) -> str:
        """A node; its output bears its name."""
        self._nodes.append(helper.make_node(op_type, inputs, [name], name=name, **attributes))
        return name

    def conv(
        self,
        name: str,
        x: str,
        channels: tuple[int, int],
        *,
        kernel: int,
        stride: int = 1,
        group: int = 1,
    ) -> str:
        """Convolution without bias, padded to keep the size, and batch normalization."""
        inner, outer = channels
        weight = self.drawn(f"{name}.weight", Role.WEIGHT, (outer, inner // group, kernel, kernel))
        y = self.op(
            "Conv",
            f"{name}.conv",
            x,
            weight,
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            pads=[kernel // 2] * 4,
            group=group,
        )
        return self.op(
            "BatchNormalization",
            f"{name}.norm",
            y,
            self.drawn(f"{name}.gain", Role.GAIN, (outer,)),
            self.drawn(f"{name}.bias", Role.BIAS, (outer,)),
            self.drawn(f"{name}.mean", Role.MEAN, (outer,)),
            self.drawn(f"{name}.variance", Role.VARIANCE, (outer,)),
        )

    def classifier(self, x: str, channels: int, classes: int = 1000) -> str:
        """Global average pooling, a dense layer and Softmax."""
        y = self.op("GlobalAveragePool", "pool", x)
        y = self.op("Flatten", "flat", y)
        weight = self.drawn("classifier.weight", Role.WEIGHT, (classes, channels))
        bias = self.drawn("classifier.bias", Role.BIAS, (classes,))
        y = self.op("Gemm", "scores", y, weight, bias, transB=1)
        return self.op("Softmax", "probabilities", y, axis=1)

    def model(self, output: str, shape: tuple[int, ...] = (1, 1000)) -> onnx.ModelProto:
        """The model, from `IMAGE` to `output`."""
        float32 = onnx.TensorProto.FLOAT
        graph = helper.make_graph(
            self._nodes,
            "network",
            [helper.make_tensor_value_info(IMAGE, float32, (1, 3, SIZE, SIZE))],
            [helper.make_tensor_value_info(output, float32, shape)],
            self._initializers,
        )
        opset = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION)
