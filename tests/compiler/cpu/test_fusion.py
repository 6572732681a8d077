"""Fusion: kernels of a model compute what ONNX's reference evaluator computes."""

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import daedal.backend


def test_constant_of_one_element_that_is_read_outside() -> None:
    """It becomes an immediate only where no read is padded: zeros between the results stay."""
    x = np.arange(1, 5, dtype=np.float32).reshape(1, 1, 4)
    weight = numpy_helper.from_array(np.full((1, 1, 1), 0.25, np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[3])],
        "graph",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, (1, 1, 10))],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    (found,) = daedal.backend.prepare(model).run([x])
    (wanted,) = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_array_equal(found, wanted)
