"""If and Loop: branches that are known are compiled, Loops end."""

import numpy as np
import pytest
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from daedal.common.errors import ModelError
from daedal.compiler.cpu.build import build_host_code
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


def graph_of(
    nodes: list[NodeProto], results: list[str], name: str, **constants: float
) -> GraphProto:
    return helper.make_graph(
        nodes,
        name,
        [],
        [helper.make_tensor_value_info(result, FLOAT, None) for result in results],
        [numpy_helper.from_array(np.array(v, np.float32), key) for key, v in constants.items()],
    )


def siblings(*conditions: bool) -> ModelProto:
    """Ifs, one after the other, whose branches all name their tensors "c", "inner" and "out"."""
    nodes, values, x = [], [], "x"
    for number, condition in enumerate(conditions):
        within = graph_of([helper.make_node("Mul", ["inner", "c"], ["deep"])], ["deep"], "deep")
        other = graph_of([helper.make_node("Neg", ["inner"], ["deep"])], ["deep"], "deeper")
        then = [
            helper.make_node("Unsqueeze", [x, "axis"], ["inner"]),
            helper.make_node("If", ["inner_if"], ["out"], then_branch=within, else_branch=other),
        ]
        branches = {
            "then_branch": graph_of(then, ["out"], "then", c=3.0 + number),
            "else_branch": graph_of(
                [helper.make_node("Add", [x, "c"], ["out"])], ["out"], "e", c=7
            ),
        }
        nodes.append(helper.make_node("If", [f"b{number}"], [f"r{number}"], **branches))
        values.append(numpy_helper.from_array(np.array(condition), f"b{number}"))
        x = f"r{number}"
    values += [
        numpy_helper.from_array(np.array([0]), "axis"),
        numpy_helper.from_array(np.array(True), "inner_if"),
    ]
    graph = helper.make_graph(
        [*nodes, helper.make_node("Relu", [x], ["y"])],
        "siblings",
        [helper.make_tensor_value_info("x", FLOAT, [3])],
        [helper.make_tensor_value_info("y", FLOAT, None)],
        values,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


@pytest.mark.parametrize("conditions", [(True, True), (True, False), (False, False), (False, True)])
def test_branches_may_name_their_tensors_alike(conditions: tuple[bool, ...]) -> None:
    code = build_host_code(siblings(*conditions))
    assert not code.interpreted
    x = np.array([1.0, -2.0, 0.5], np.float32)
    wanted = x
    for number, condition in enumerate(conditions):
        wanted = wanted[None] * (3 + number) if condition else wanted + 7
    found = HostProgram(code).run({"x": x})["y"]
    np.testing.assert_allclose(found, np.maximum(wanted, 0), rtol=1e-6)


@pytest.mark.parametrize("values", [[], [True, False]])
def test_a_condition_is_one_element(values: list[bool]) -> None:
    model = branching(constant=True)
    condition = numpy_helper.from_array(np.array(values, np.bool_), "condition")
    model.graph.initializer[0].CopyFrom(condition)
    assert [step.op for step in build_host_code(model).interpreted] == ["If"]


@pytest.mark.parametrize("op_type", ["Shape", "Size", "Dropout", "If"])
def test_operators_of_another_domain_have_no_meaning_of_ours(op_type: str) -> None:
    """What a domain of its own calls Shape is not ONNX's."""
    attributes = {}
    if op_type == "If":
        (node,) = (item for item in branching(constant=True).graph.node if item.op_type == "If")
        attributes = {item.name: item.g for item in node.attribute}
    model = branching(constant=True)
    own = helper.make_node(op_type, ["condition"], ["r"], domain="com.example", **attributes)
    del model.graph.node[:]
    model.graph.node.append(own)
    model.graph.output[0].name = "r"
    model.opset_import.append(helper.make_opsetid("com.example", 1))
    assert [step.op for step in build_host_code(model).interpreted] == [op_type]
