"""Models that strain the compiler: deep, damaged, huge, or with types that are not true."""

import itertools

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from daedal.common.errors import ModelError
from daedal.compiler.cpu.build import build_host_code
from daedal.runtime.host_code import HostProgram


def model(nodes: list[onnx.NodeProto], size: int, **constants: np.ndarray) -> onnx.ModelProto:
    """Nodes from x to y, of `size` floats each."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [size]) for name in "xy")
    values = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "odd", [x], [y], values)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])


@pytest.mark.parametrize("op_type", ["Neg", "Add"])
def test_long_chains(op_type: str) -> None:
    """Formulas stay shallow, and compilation recurses no deeper for longer chains."""
    names = ["x", *(f"t{number}" for number in range(1_199)), "y"]
    nodes = [
        helper.make_node(op_type, [a] if op_type == "Neg" else [a, "c"], [b])
        for a, b in itertools.pairwise(names)
    ]
    code = build_host_code(model(nodes, 4, c=np.ones(4, np.float32)))
    assert code.interpreted == () and len(code.calls) > 10
    x = np.array([1, -2, 3, 0.5], np.float32)
    wanted = x if op_type == "Neg" else x + 1_200
    np.testing.assert_array_equal(HostProgram(code).run({"x": x})["y"], wanted)


def test_many_operands() -> None:
    """One formula that nests too deeply is interpreted, or the model refused."""
    given = model([helper.make_node("Sum", ["x"] * 3_000, ["y"])], 2)
    x = np.array([1, -2], np.float32)
    try:
        code = build_host_code(given)
    except ModelError as error:
        assert "must not nest too deeply" in str(error)
        return
    np.testing.assert_array_equal(HostProgram(code).run({"x": x})["y"], 3_000 * x)


@pytest.mark.parametrize("change", [{"raw_data": bytes(12)}, {"data_type": -1}])
def test_damaged_constants(change: dict[str, object]) -> None:
    given = model([helper.make_node("Add", ["x", "c"], ["y"])], 4, c=np.ones(4, np.float32))
    for name, value in change.items():
        setattr(given.graph.initializer[0], name, value)
    with pytest.raises(ModelError, match="as many values as its dimensions say, but 'c' of"):
        build_host_code(given)


def test_huge_tensors_are_not_compiled() -> None:
    shape = np.array([1 << 20, 1 << 10], np.int64)
    nodes = [
        helper.make_node("Expand", ["x", "shape"], ["big"]),
        helper.make_node("ReduceMax", ["big", "axes"], ["y"], keepdims=0),
    ]
    code = build_host_code(model(nodes, 1, shape=shape, axes=np.array([0, 1])))
    reasons = {step.op: step.reason for step in code.interpreted}
    assert f"at most {1 << 28} elements, and 'big' has {1 << 30}" in reasons["Expand"]
    assert code.memory_bytes < 1 << 20


@pytest.mark.parametrize("claimed", [[1, 7], [1, 1]])
def test_a_result_of_another_shape(claimed: list[int]) -> None:
    """The model says what NonZero gives, wrongly: nothing is broadcast into place."""
    nodes = [
        helper.make_node("NonZero", ["x"], ["places"]),
        helper.make_node("Cast", ["places"], ["y"], to=TensorProto.FLOAT),
    ]
    given = model(nodes, 4)
    given.graph.value_info.append(
        helper.make_tensor_value_info("places", TensorProto.INT64, claimed)
    )
    given.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, claimed))
    program = HostProgram(build_host_code(given))
    count = claimed[1] if claimed[1] != 1 else 3
    x = np.zeros(4, np.float32)
    x[: min(count, 4)] = 1
    with pytest.raises(ModelError, match="NonZero gives"):
        program.run({"x": x})
