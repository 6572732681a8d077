"""Arithmetic on shapes and scales, as exporters leave it, is done at the import."""

from collections.abc import Callable

import numpy as np
import onnx
import pytest

from bench.qdq_model import QdqModel
from daedal.checking.integer_reference import run_onnxruntime
from daedal.compiler.frontend import load_onnx
from daedal.compiler.graph import run


def whole(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def flattened_view(maker: QdqModel, x: str) -> str:
    """``x.view(x.size(0), -1)``"""
    batch = maker.op("Gather", maker.op("Shape", x), maker.constant(np.int64(0)))
    batch = maker.op("Unsqueeze", batch, maker.constant(whole(0)))
    shape = maker.op("Concat", batch, maker.constant(whole(-1)), axis=0)
    return maker.op("Reshape", x, shape)


def part_of_shape(maker: QdqModel, x: str) -> str:
    """``x.flatten(2)``, and a Shape of some axes only."""
    shape = maker.op("Concat", maker.op("Shape", x, end=2), maker.constant(whole(-1)), axis=0)
    return maker.op("Reshape", x, shape)


def channel_shuffle(maker: QdqModel, x: str) -> str:
    """Groups of channels from a division of their number."""
    shape = maker.op("Shape", x)
    start, one, two = (maker.constant(whole(value)) for value in (0, 1, 2))
    batch, count = maker.op("Slice", shape, start, one), maker.op("Slice", shape, one, two)
    per_group = maker.op("Div", count, two)
    rest = maker.op("Slice", shape, two, maker.constant(whole(4)))
    parts = maker.op("Reshape", x, maker.op("Concat", batch, two, per_group, rest, axis=0))
    turned = maker.op("Transpose", parts, perm=[0, 2, 1, 3, 4])
    return maker.op("Reshape", turned, maker.op("Shape", x))


def half_of_size(maker: QdqModel, x: str) -> str:
    half = maker.op("Div", maker.op("Size", x), maker.constant(np.int64(2)))
    half = maker.op("Cast", half, to=onnx.TensorProto.INT32)
    half = maker.op("Cast", maker.op("Unsqueeze", half, maker.constant(whole(0))), to=7)
    return maker.op("Reshape", x, maker.op("Concat", maker.constant(whole(2)), half, axis=0))


@pytest.mark.parametrize("make", [flattened_view, part_of_shape, channel_shuffle, half_of_size])
def test_what_is_computed_from_shapes(
    make: Callable[[QdqModel, str], str], rng: np.random.Generator
) -> None:
    maker = QdqModel(opset=15)
    x = maker.input("x", ("batch", 6, 3, 4))
    maker.op("Relu", make(maker, x), output="y")
    model = maker.model("y")
    model.graph.output[0].type.tensor_type.shape.Clear()
    feeds = {"x": rng.normal(size=(1, 6, 3, 4)).astype(np.float32)}
    (expected,) = run_onnxruntime(model, feeds)
    graph = load_onnx(model.SerializeToString())
    assert {node.op for node in graph.nodes} <= {"reshape", "transpose", "relu"}
    np.testing.assert_array_equal(run(graph, feeds)["y"], expected)


def test_zero_points_that_are_cast(rng: np.random.Generator) -> None:
    """As exporters write them: a Constant, cast to the type of the quantized tensor."""
    maker = QdqModel()
    zero = maker.op("Constant", value=onnx.numpy_helper.from_array(np.array(5, dtype=np.int64)))
    zero = maker.op("Identity", maker.op("Cast", zero, to=onnx.TensorProto.INT8))
    scale = maker.constant(np.float32(0.1))
    x_q = maker.op("QuantizeLinear", maker.input("x", (2, 3)), scale, zero)
    maker.op("DequantizeLinear", x_q, scale, zero, output="y")
    model, feeds = maker.model("y"), {"x": rng.normal(size=(2, 3)).astype(np.float32)}
    graph = load_onnx(model.SerializeToString())
    np.testing.assert_array_equal(run(graph, feeds)["y"], run_onnxruntime(model, feeds)[0])
