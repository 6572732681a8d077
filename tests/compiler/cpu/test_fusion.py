"""Fusion: kernels of a model compute what ONNX's reference evaluator computes."""

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import daedal.backend
from daedal.compiler import te
from daedal.compiler.cpu.constants import Constants
from daedal.compiler.cpu.fusion import fuse
from daedal.compiler.tir.expr import Expr


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


def test_sums_of_two_reductions_that_are_added_are_not_stored_as_they_are() -> None:
    """The kernel of one requantizes them; that of the longer one adds both."""
    x = te.placeholder((8, 16), "int8", "x")

    def narrowed(terms: int, name: str) -> te.Tensor:
        k = te.reduce_axis(terms, "k")
        sums = te.compute((8,), lambda i: te.sum(x[i, k].astype("int32"), [k]), f"{name}_sums")
        return te.compute((8,), lambda i: te.clip(sums[i], -9, 9).astype("int8"), name)

    a, b = narrowed(16, "a"), narrowed(8, "b")

    def added(i: Expr) -> Expr:
        return a[i].astype("int32") + b[i].astype("int32")

    y = te.compute((8,), added, "y")
    kernels = fuse([y], Constants({}))
    assert {tensor.name: tensor.dtype for tensor in kernels} == {"b": "int8", "y": "int32"}
