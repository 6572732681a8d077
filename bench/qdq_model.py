"""`QdqModel`: builds small models of operators between DequantizeLinear and QuantizeLinear."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

__all__ = ["QdqModel"]

Array = npt.NDArray[Any]


class QdqModel:
    """Collects nodes of a QDQ model; every method returns the name of its result."""

    def __init__(self, opset: int = 13) -> None:
        self.opset = opset
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self._count = 0

    def input(self, name: str, shape: Sequence[int | str | None], dtype: str = "float32") -> str:
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def constant(self, value: Array, name: str | None = None) -> str:
        name = name or self._fresh("c")
        self.initializers.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def op(self, op_type: str, *inputs: str, output: str | None = None, **attrs: Any) -> str:
        output = output or self._fresh(op_type.lower())
        name = f"{output}/{op_type}"
        self.nodes.append(helper.make_node(op_type, inputs, [output], name=name, **attrs))
        return output

    def quantize(
        self, x: str, scale: float, zero_point: int, dtype: str = "int8", output: str | None = None
    ) -> str:
        s = self.constant(np.array(scale, dtype=np.float32))
        z = self.constant(np.array(zero_point, dtype=dtype))
        return self.op("QuantizeLinear", x, s, z, output=output)

    def dequantize(self, q: str, scale: float, zero_point: int, dtype: str = "int8") -> str:
        s = self.constant(np.array(scale, dtype=np.float32))
        z = self.constant(np.array(zero_point, dtype=dtype))
        return self.op("DequantizeLinear", q, s, z)

    def requantized(
        self, x: str, scale: float, zero_point: int, dtype: str = "int8", output: str | None = None
    ) -> str:
        """Quantize and dequantize: the boundary between two quantized layers."""
        q = self.quantize(x, scale, zero_point, dtype, output)
        return self.dequantize(q, scale, zero_point, dtype)

    def weights(self, values: Array, scales: Array | float, axis: int = 0) -> str:
        """Dequantized int8 weights; `scales` is one number or one per index of `axis`."""
        scale = np.asarray(scales, dtype=np.float32)
        s, w = self.constant(scale), self.constant(values)
        z = self.constant(np.zeros(scale.shape, dtype=values.dtype))
        attrs = {"axis": axis} if scale.ndim else {}
        return self.op("DequantizeLinear", w, s, z, **attrs)

    def bias(self, values: Array, scales: Array) -> str:
        scale = np.asarray(scales, dtype=np.float32)
        s, b = self.constant(scale), self.constant(values.astype(np.int32))
        z = self.constant(np.zeros(scale.shape, dtype=np.int32))
        return self.op("DequantizeLinear", b, s, z, **({"axis": 0} if scale.ndim else {}))

    def model(self, *outputs: str, dtype: str = "float32") -> onnx.ModelProto:
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        graph = helper.make_graph(
            self.nodes,
            "small",
            self.inputs,
            [helper.make_tensor_value_info(name, kind, None) for name in outputs],
            self.initializers,
        )
        opset = helper.make_opsetid("", self.opset)
        # 8 is the last IR version that predates the oldest onnxruntime we support.
        model = helper.make_model(graph, opset_imports=[opset], ir_version=8)
        return onnx.shape_inference.infer_shapes(model)  # outputs must have shapes

    def _fresh(self, base: str) -> str:
        self._count += 1
        return f"{base}{self._count}"
