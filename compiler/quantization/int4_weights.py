"""`store_int4`: constants that fit 4 bits become INT4 in a quantized model, which opset 21 has.

Source: ONNX, docs/Operators.md, DequantizeLinear-21; TensorProto.INT4: two values in a byte, the
first one low.
"""

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import numpy_helper

from daedal.compiler.graph.graph import Array
from daedal.isa.elements import to_memory
from daedal.isa.numerics import integer_range
from daedal.isa.scratchpad import NARROW_WEIGHT_BITS

__all__ = ["store_int4"]


def store_int4(model: onnx.ModelProto) -> None:
    """Change int8 constants that only DequantizeLinear reads, and their zero points, in place."""
    arrays = {
        item.name: numpy_helper.to_array(item)
        for item in model.graph.initializer
        if item.data_type == onnx.TensorProto.INT8
    }
    kept = set(_kept(model.graph, arrays))
    for item in model.graph.initializer:
        if item.name in arrays and item.name not in kept:
            item.CopyFrom(_int4(item.name, arrays[item.name]))


def _kept(graph: onnx.GraphProto, arrays: dict[str, Array]) -> Iterator[str]:
    """Constants that stay: they do not fit, or something else reads them or their zero point."""
    low, high = integer_range(NARROW_WEIGHT_BITS)
    yield from (item.name for item in graph.output)
    for node in graph.node:
        constants = [name for name in node.input if name in arrays]
        fit = all(arrays[name].min() >= low and arrays[name].max() <= high for name in constants)
        is_weights = node.op_type == "DequantizeLinear" and node.input[0] in arrays
        if not (is_weights and fit and len(constants) == 2):
            yield from constants


def _int4(name: str, values: Array) -> onnx.TensorProto:
    flat = values.reshape(1, -1).astype(np.int64)
    flat = np.pad(flat, ((0, 0), (0, flat.size % 2)))
    packed = to_memory(flat, NARROW_WEIGHT_BITS).tobytes()
    kind = onnx.TensorProto.INT4
    return onnx.TensorProto(name=name, dims=values.shape, data_type=kind, raw_data=packed)
