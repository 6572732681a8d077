"""Small ONNX models for the compiler for processors."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from daedal.artifact.host_code import HostCode

__all__ = ["SHAPE", "one_model", "small_floats", "zeroed"]

SHAPE = (2, 3)


def one_model(
    nodes: Sequence[onnx.NodeProto],
    constants: Sequence[TensorProto] = (),
    kinds: tuple[int, int] = (TensorProto.FLOAT, TensorProto.FLOAT),
) -> bytes:
    """A model from ``x`` to ``y``, both of `SHAPE` and of the given element types."""
    x, y = (
        helper.make_tensor_value_info(name, kind, SHAPE)
        for name, kind in zip("xy", kinds, strict=True)
    )
    graph = helper.make_graph(nodes, "small", [x], [y], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    return bytes(model.SerializeToString())


def small_floats() -> bytes:
    """``y = x @ w + b``, where an interpreted node gives b, which is 0. Its code has a step of each
    kind, and a constant in memory."""
    weights = np.arange(9, dtype=np.float32).reshape(3, 3)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Bernoulli", ["z"], ["b"]),
        helper.make_node("Add", ["m", "b"], ["y"]),
    ]
    zeros = np.zeros(SHAPE, np.float32)
    return one_model(
        nodes, [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(zeros, "z")]
    )


def zeroed(code: HostCode) -> HostCode:
    """The same code with zeros as its constants."""
    constants = tuple(
        replace(item, values=replace(item.values, data=bytes(len(item.values.data))))
        for item in code.constants
    )
    return replace(code, constants=constants)
