"""Softmax and norms of models are one kernel each, with what is elementwise around them."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from daedal.checking.onnxruntime_session import open_session
from daedal.compiler.gpu.build import build_gpu_code
from daedal.runtime.gpu_program import GpuProgram
from daedal.sim.gpu.emulator import EmulatedGpu

node = helper.make_node
RMS = [
    node("Mul", ["x", "x"], ["a"]),
    node("ReduceMean", ["a", "last"], ["b"]),
    node("Add", ["b", "small"], ["c"]),
    node("Sqrt", ["c"], ["d"]),
    node("Div", ["x", "d"], ["e"]),
    node("Mul", ["e", "g"], ["y"]),
]
NETWORKS = {
    "softmax": [node("Softmax", ["x"], ["y"])],
    "softmax of a sum": [node("Add", ["x", "g"], ["a"]), node("Softmax", ["a"], ["y"])],
    "log softmax": [node("LogSoftmax", ["x"], ["y"])],
    "layer norm": [node("LayerNormalization", ["x", "g", "h"], ["y"])],
    "layer norm between others": [
        node("Abs", ["x"], ["a"]),
        node("LayerNormalization", ["a", "g", "h"], ["b"]),
        node("Relu", ["b"], ["y"]),
    ],
    "root mean squares": RMS,
}


def network(nodes: list[onnx.NodeProto], shape: tuple[int, ...]) -> onnx.ModelProto:
    """From x to y; g and h have a number for each element of a row."""
    rng = np.random.default_rng(0)
    constants = {
        "g": rng.standard_normal(shape[-1]).astype(np.float32),
        "h": rng.standard_normal(shape[-1]).astype(np.float32),
        "last": np.array([-1]),
        "small": np.array(1e-5, np.float32),
    }
    read = {name for item in nodes for name in item.input}
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(value, name) for name, value in constants.items() if name in read],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return onnx.shape_inference.infer_shapes(made)


def launches(model: onnx.ModelProto) -> int:
    """Of a model that computes what onnxruntime does, without races."""
    shape = [size.dim_value for size in model.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    code = build_gpu_code(model, architectures=["emulated"], checked=True)
    assert not code.host.interpreted and not code.on_processor
    (found,) = GpuProgram(code, EmulatedGpu(races=True, seed=0)).run({"x": x}).values()
    (wanted,) = open_session(model)({"x": x})
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    return len(code.host.calls)


@pytest.mark.parametrize("shape", [(2, 3, 33), (5, 200)])
@pytest.mark.parametrize("name", NETWORKS)
def test_rows_are_one_kernel(name: str, shape: tuple[int, ...]) -> None:
    assert launches(network(NETWORKS[name], shape)) == 1


def test_rows_behind_a_product() -> None:
    """The product has a kernel of its own, with the sum behind it."""
    nodes = [
        node("MatMul", ["x", "w"], ["a"]),
        node("Add", ["a", "g"], ["b"]),
        node("LayerNormalization", ["b", "g", "h"], ["c"]),
        node("Add", ["b", "c"], ["y"]),
    ]
    model = network(nodes, (5, 40))
    weights = np.random.default_rng(2).standard_normal((40, 40)).astype(np.float32) / 6
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    assert launches(model) == 2


def test_other_axes_and_long_rows_have_several() -> None:
    """Threads have no room for such rows, and rows lie along the last axis."""
    assert launches(network([node("Softmax", ["x"], ["y"], axis=0)], (20, 7))) > 1
    assert launches(network([node("Softmax", ["x"], ["y"])], (1, 20000))) > 1
