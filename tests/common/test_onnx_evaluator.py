"""Operators of our own for ONNX's reference evaluator."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from daedal.checking.integer_reference import run_onnxruntime
from daedal.common.onnx_evaluator import evaluator_of


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("shape", [(3, 5), (2, 100)])
def test_gather_elements_takes_any_axis(
    axis: int, shape: tuple[int, int], rng: np.random.Generator
) -> None:
    """Also a long one, and indices of a part of the other axis."""
    node = helper.make_node("GatherElements", ["x", "i"], ["y"], axis=axis)
    kinds = [("x", TensorProto.FLOAT, (4, 100)), ("i", TensorProto.INT64, shape)]
    inputs = [helper.make_tensor_value_info(*kind) for kind in kinds]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)
    model = helper.make_model(helper.make_graph([node], "g", inputs, [output]), ir_version=8)
    feeds = {
        "x": rng.normal(size=(4, 100)).astype(np.float32),
        "i": rng.integers(-4, 4, shape),
    }
    (found,) = evaluator_of(model).run(None, feeds)
    np.testing.assert_array_equal(found, run_onnxruntime(model, feeds)[0])


def test_resize_with_align_corners_has_the_length_of_the_result() -> None:
    """Corners lie on corners, also where the scale is no whole number: 3 pixels become 4."""
    attrs = {"coordinate_transformation_mode": "align_corners", "mode": "linear"}
    node = helper.make_node("Resize", ["x", "", "scales"], ["y"], **attrs)
    scales = helper.make_tensor("scales", TensorProto.FLOAT, [2], [1, 1.4])
    value = helper.make_tensor_value_info
    inputs, outputs = (
        [value(name, TensorProto.FLOAT, shape)] for name, shape in (("x", (1, 3)), ("y", (1, 4)))
    )
    graph = helper.make_graph([node], "g", inputs, outputs, [scales])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    (found,) = evaluator_of(model).run(None, {"x": np.array([[0, 3, 6]], np.float32)})
    np.testing.assert_allclose(found, [[0, 2, 4, 6]], rtol=1e-6)


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(
    ("channels", "groups", "outs", "extents"),
    [(6, 1, 2, (4, 3)), (6, 2, 3, (4, 3)), (6, 6, 1, (4, 3)), (6, 6, 2, (5,)), (4, 2, 4, (1, 1))],
)
def test_transposed_convolutions_of_groups(
    channels: int,
    groups: int,
    outs: int,
    extents: tuple[int, ...],
    biased: bool,
    rng: np.random.Generator,
) -> None:
    shapes = {
        "x": (2, channels, *extents),
        "w": (channels, outs, *[2] * len(extents)),
        "b": (outs * groups,),
    }
    names = ["x", "w", "b"][: 3 if biased else 2]
    node = helper.make_node("ConvTranspose", names, ["y"], group=groups, strides=[2] * len(extents))
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shapes[n]) for n in names]
    graph = helper.make_graph([node], "g", inputs, [helper.make_empty_tensor_value_info("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    feeds = {name: rng.normal(size=shapes[name]).astype(np.float32) for name in names}
    (found,) = evaluator_of(model).run(None, feeds)
    np.testing.assert_allclose(found, run_onnxruntime(model, feeds)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("length", [7, 9])
def test_a_transposed_convolution_of_a_given_length(length: int, rng: np.random.Generator) -> None:
    attrs = {"strides": [2], "output_shape": [length]}
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], **attrs)
    shapes = {"x": (1, 3, 4), "w": (3, 2, 3)}
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()]
    graph = helper.make_graph([node], "g", inputs, [helper.make_empty_tensor_value_info("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    feeds = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    (found,) = evaluator_of(model).run(None, feeds)
    assert found.shape == (1, 2, length)
    np.testing.assert_allclose(found, run_onnxruntime(model, feeds)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("opset", [10, 13, 18])
@pytest.mark.parametrize("axis", [None, 1])
def test_older_operators_dequantize(opset: int, axis: int | None, rng: np.random.Generator) -> None:
    """With a scale for all, and, from opset 13 on, one for each channel."""
    if opset < 13 and axis is not None:
        return
    extent: tuple[int, ...] = () if axis is None else (3,)
    attrs = {} if axis is None else {"axis": axis}
    node = helper.make_node("DequantizeLinear", ["x", "s", "z"], ["y"], **attrs)
    kinds = [
        ("x", TensorProto.UINT8, (2, 3, 4)),
        ("s", TensorProto.FLOAT, extent),
        ("z", TensorProto.UINT8, extent),
    ]
    inputs = [helper.make_tensor_value_info(*kind) for kind in kinds]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, (2, 3, 4))
    graph = helper.make_graph([node], "g", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    feeds = {
        "x": rng.integers(0, 256, (2, 3, 4)).astype(np.uint8),
        "s": np.asarray(rng.uniform(0.1, 1, extent), np.float32),
        "z": np.asarray(rng.integers(0, 256, extent), np.uint8),
    }
    (found,) = evaluator_of(model).run(None, feeds)
    np.testing.assert_allclose(found, run_onnxruntime(model, feeds)[0], rtol=1e-6)


def test_the_newest_operator_dequantizes_blocks() -> None:
    """From opset 21 on a scale may stand for a block of an axis: ONNX's own evaluator knows."""
    node = helper.make_node("DequantizeLinear", ["x", "s"], ["y"], axis=1, block_size=2)
    kinds = [("x", TensorProto.INT8, (1, 4)), ("s", TensorProto.FLOAT, (1, 2))]
    inputs = [helper.make_tensor_value_info(*kind) for kind in kinds]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 4))
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 3)]
    graph = helper.make_graph([node], "g", inputs, [output])
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    feeds = {"x": np.array([[1, 2, 3, 4]], np.int8), "s": np.array([[2, 10]], np.float32)}
    (found,) = evaluator_of(model).run(None, feeds)
    np.testing.assert_array_equal(found, [[2, 4, 30, 40]])
