"""If and Loop: branches that are known are compiled, Loops end."""

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from daedal.compiler.cpu.build import build_host_code
from daedal.isa.errors import ModelError
from daedal.runtime.host_code import HostProgram

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def branching(*, constant: bool | None) -> ModelProto:
    """``exp(x * 2) if condition else -x``; the condition is constant, or an input."""

    def branch(name: str, *nodes: object, **constants: np.ndarray) -> object:
        values = [numpy_helper.from_array(value, key) for key, value in constants.items()]
        return helper.make_graph(
            list(nodes), name, [], [helper.make_tensor_value_info(f"{name}_y", FLOAT, [3])], values
        )

    then = branch(
        "then",
        helper.make_node("Mul", ["x", "two"], ["scaled"]),
        helper.make_node("Exp", ["scaled"], ["then_y"]),
        two=np.array(2.0, np.float32),
    )
    other = branch("else", helper.make_node("Neg", ["x"], ["else_y"]))
    node = helper.make_node("If", ["condition"], ["r"], then_branch=then, else_branch=other)
    inputs = [helper.make_tensor_value_info("x", FLOAT, [3])]
    values = []
    if constant is None:
        inputs.append(helper.make_tensor_value_info("condition", BOOL, []))
    else:
        values.append(numpy_helper.from_array(np.array(constant), "condition"))
    graph = helper.make_graph(
        [node, helper.make_node("Relu", ["r"], ["y"])],
        "g",
        inputs,
        [helper.make_tensor_value_info("y", FLOAT, [3])],
        values,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


def counting(count: int) -> ModelProto:
    """Doubles x `count` times."""
    body = helper.make_graph(
        [
            helper.make_node("Add", ["v", "v"], ["w"]),
            helper.make_node("Identity", ["going"], ["still"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("number", INT64, []),
            helper.make_tensor_value_info("going", BOOL, []),
            helper.make_tensor_value_info("v", FLOAT, [2]),
        ],
        [
            helper.make_tensor_value_info("still", BOOL, []),
            helper.make_tensor_value_info("w", FLOAT, [2]),
        ],
    )
    graph = helper.make_graph(
        [helper.make_node("Loop", ["count", "", "x"], ["y"], body=body)],
        "g",
        [helper.make_tensor_value_info("x", FLOAT, [2])],
        [helper.make_tensor_value_info("y", FLOAT, [2])],
        [numpy_helper.from_array(np.array(count), "count")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


@pytest.mark.parametrize("constant", [True, False, None])
@pytest.mark.parametrize("taken", [True, False])
def test_if(constant: bool | None, taken: bool) -> None:
    model = branching(constant=constant)
    code = build_host_code(model)
    assert [step.op for step in code.interpreted] == (["If"] if constant is None else [])
    feeds = {"x": np.array([-1.0, 0.0, 2.0], np.float32)}
    if constant is None:
        feeds["condition"] = np.array(taken)
    (wanted,) = ReferenceEvaluator(model).run(None, feeds)
    np.testing.assert_allclose(HostProgram(code).run(feeds)["y"], wanted, rtol=1e-6)


def test_a_loop_runs() -> None:
    program = HostProgram(build_host_code(counting(5)))
    found = program.run({"x": np.array([1.0, -3.0], np.float32)})["y"]
    np.testing.assert_array_equal(found, np.array([32.0, -96.0], np.float32))


def test_a_loop_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daedal.runtime.bounded_loop.MAX_ITERATIONS", 100)
    program = HostProgram(build_host_code(counting(1 << 40)))
    with pytest.raises(ModelError, match="100 iterations"):
        program.run({"x": np.ones(2, np.float32)})
