"""Conditions have one element; other models are refused in one sentence."""

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from daedal.common.errors import ModelError
from daedal.compiler.frontend.reader import read_model

TWO = (helper.make_tensor_value_info("y", TensorProto.FLOAT, [2]),)


def branch(name: str, *nodes: onnx.NodeProto) -> onnx.GraphProto:
    result = helper.make_tensor_value_info(f"{name}_y", TensorProto.FLOAT, [2])
    made = nodes or (helper.make_node("Identity", ["x"], [f"{name}_y"]),)
    return helper.make_graph(list(made), name, [], [result])


def chosen(name: str = "condition", result: str = "y", suffix: str = "") -> onnx.NodeProto:
    branches = {f"{one}_branch": branch(f"{one}{suffix}") for one in ("then", "else")}
    return helper.make_node("If", [name], [result], **branches)


def model(
    nodes: Sequence[onnx.NodeProto], constant: onnx.TensorProto | None, *inputs: onnx.ValueInfoProto
) -> bytes:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    graph = helper.make_graph(nodes, "g", [x, *inputs], TWO, [constant] if constant else [])
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def values(shape: Sequence[int]) -> onnx.TensorProto:
    return numpy_helper.from_array(np.ones(shape, bool), "condition")


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_one_element_is_a_condition(shape: tuple[int, ...]) -> None:
    read = read_model(model([chosen()], values(shape)))
    assert [node.op_type for node in read.graph.node] == ["If"]


@pytest.mark.parametrize("shape", [(2,), (0,), (1, 3)])
@pytest.mark.parametrize("kind", ["initializer", "constant", "input", "outer"])
def test_other_numbers_are_refused(shape: tuple[int, ...], kind: str) -> None:
    count = int(np.prod(shape))
    if kind == "initializer":
        data = model([chosen()], values(shape))
    elif kind == "constant":
        made = helper.make_node("Constant", [], ["condition"], value=values(shape))
        data = model([made, chosen()], None)
    elif kind == "input":
        given = helper.make_tensor_value_info("condition", TensorProto.BOOL, shape)
        data = model([chosen()], None, given)
    else:
        go = numpy_helper.from_array(np.array(True), "go")
        inner = branch("then", chosen(result="then_y", suffix="_inner"))
        nodes = [
            helper.make_node("Constant", [], ["condition"], value=values(shape)),
            helper.make_node("If", ["go"], ["y"], then_branch=inner, else_branch=branch("else")),
        ]
        data = model(nodes, go)
    with pytest.raises(ModelError) as caught:
        read_model(data)
    assert str(caught.value) == (
        f"the condition of an operator If must have one element, and 'condition' has {count}; "
        "repair the model"
    )


def test_a_loop_counts_to_one_number() -> None:
    body = helper.make_graph(
        [helper.make_node("Identity", [name], [f"{name}_next"]) for name in ("going", "v")],
        "body",
        [
            helper.make_tensor_value_info("number", TensorProto.INT64, []),
            helper.make_tensor_value_info("going", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", TensorProto.FLOAT, [2]),
        ],
        [
            helper.make_tensor_value_info("going_next", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v_next", TensorProto.FLOAT, [2]),
        ],
    )
    loop = helper.make_node("Loop", ["count", "", "x"], ["y"], body=body)
    data = model([loop], numpy_helper.from_array(np.array([1, 2]), "count"))
    with pytest.raises(ModelError, match="number of iterations of an operator Loop must have one"):
        read_model(data, loops=True)
