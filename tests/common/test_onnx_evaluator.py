"""Operators of our own for ONNX's reference evaluator."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from daedal.common.onnx_evaluator import evaluator_of
from daedal.integer_reference import run_onnxruntime


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
