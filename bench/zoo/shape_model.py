"""`ShapeModel`: builds models with any inputs, for the networks of `bench.zoo.shapes`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from bench.zoo.builder import IR_VERSION, OPSET, FloatModel
from bench.zoo.weights import Role

__all__ = ["ShapeModel"]


class ShapeModel(FloatModel):
    """A `FloatModel` that names its nodes; its weights are He's."""

    def new(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """A node with one result."""
        return self.op(op_type, f"{op_type.lower()}{len(self._nodes)}", *inputs, **attributes)

    def several(self, op_type: str, count: int, *inputs: str, **attributes: Any) -> list[str]:
        """A node with `count` results, the names of those that nothing reads among them."""
        name = f"{op_type.lower()}{len(self._nodes)}"
        names = [f"{name}.{number}" for number in range(count)]
        self._nodes.append(helper.make_node(op_type, inputs, names, name=name, **attributes))
        return names

    def weight(self, *shape: int, role: Role = Role.WEIGHT) -> str:
        """A drawn constant."""
        return self.drawn(f"c{len(self._initializers)}", role, shape)

    def number(self, value: float) -> str:
        """A float32 without axes."""
        return self.constant(f"c{len(self._initializers)}", np.array(value, np.float32))

    def ints(self, *values: int) -> str:
        """An int64 vector."""
        return self.constant(f"c{len(self._initializers)}", np.array(values, np.int64))

    def plain_conv(
        self, x: str, ins: int, outs: int, kernel: int = 1, stride: int = 1, group: int = 1
    ) -> str:
        """2-d convolution with bias that keeps the size, or divides it by the stride."""
        weight = self.weight(outs, ins // group, kernel, kernel)
        bias = self.weight(outs, role=Role.BIAS)
        return self.new(
            "Conv",
            x,
            weight,
            bias,
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            pads=[kernel // 2] * 4,
            group=group,
        )

    def normalized_conv(
        self, x: str, ins: int, outs: int, kernel: int = 1, stride: int = 1, group: int = 1
    ) -> str:
        """The same without bias, and a batch normalization."""
        name = f"block{len(self._nodes)}"
        return self.conv(name, x, (ins, outs), kernel=kernel, stride=stride, group=group)

    def silu(self, x: str) -> str:
        """x * sigmoid(x)."""
        return self.new("Mul", x, self.new("Sigmoid", x))

    def dense(self, x: str, ins: int, outs: int) -> str:
        """MatMul over the last axis, and a bias."""
        weight = self.constant(
            f"c{len(self._initializers)}",
            (self._rng.standard_normal((ins, outs)) * ins**-0.5).astype(np.float32),
        )
        return self.new("Add", self.new("MatMul", x, weight), self.weight(outs, role=Role.BIAS))

    def finish(
        self, inputs: Mapping[str, tuple[int, Sequence[int]]], outputs: Sequence[str]
    ) -> onnx.ModelProto:
        """The model; inputs with ONNX's element type and shape, outputs of inferred type."""
        graph = helper.make_graph(
            self._nodes,
            "network",
            [helper.make_tensor_value_info(name, *kind) for name, kind in inputs.items()],
            [helper.make_empty_tensor_value_info(name) for name in outputs],
            self._initializers,
        )
        opset = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION)
        types = {item.name: item for item in onnx.shape_inference.infer_shapes(
            model, strict_mode=True, data_prop=True
        ).graph.output}  # fmt: skip
        for item in model.graph.output:
            item.CopyFrom(types[item.name])
        return model
