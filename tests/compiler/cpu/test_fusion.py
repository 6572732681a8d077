"""Fusion: kernels of a model compute what ONNX's reference evaluator computes."""

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import daedal.backend
from daedal.artifact.host_code import CodeCall
from daedal.compiler import te
from daedal.compiler.cpu.build import build_host_code
from daedal.compiler.cpu.constants import Constants
from daedal.compiler.cpu.fusion import fuse
from daedal.compiler.tir.expr import Expr
from daedal.runtime.host_code import HostProgram


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


def attended_heads(heads: int, size: int, rows: int = 6) -> onnx.ModelProto:
    """Attention: parts of one product, which Reshape splits into heads and Transpose moves."""
    width = heads * size
    rng = np.random.default_rng(width)
    weights = {
        "w": rng.normal(size=(width, 3 * width)).astype(np.float32),
        "shape": np.array([1, rows, heads, size]),
    }
    node = helper.make_node
    nodes = [
        node("MatMul", ["x", "w"], ["qkv"]),
        node("Split", ["qkv"], ["q", "k", "v"], axis=2, num_outputs=3),
        node("Reshape", ["q", "shape"], ["q4"]),
        node("Reshape", ["k", "shape"], ["k4"]),
        node("Transpose", ["q4"], ["qt"], perm=[0, 2, 1, 3]),
        node("Transpose", ["k4"], ["kt"], perm=[0, 2, 3, 1]),
        node("MatMul", ["qt", "kt"], ["scores"]),
        node("Softmax", ["scores"], ["weights"]),
        node("Reshape", ["v", "shape"], ["v4"]),
        node("Transpose", ["v4"], ["vt"], perm=[0, 2, 1, 3]),
        node("MatMul", ["weights", "vt"], ["means"]),
        node("Transpose", ["means"], ["y"], perm=[0, 2, 1, 3]),
    ]
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (1, rows, width))],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, (1, rows, heads, size))],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def test_heads_are_read_and_written_in_place() -> None:
    """No kernel copies parts of the product that holds them, or brings the results together."""
    model = attended_heads(2, 16)
    code = build_host_code(model)
    x = np.random.default_rng(1).normal(size=(1, 6, 32)).astype(np.float32)
    (found,) = HostProgram(code).run({"x": x}).values()
    (wanted,) = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    calls = [step for step in code.steps if isinstance(step, CodeCall)]
    assert len(calls) == 4  # the three products and the softmax
