"""Whole models with If, Loop and functions of their own, for processors: they compile, read back
and compute what numpy does."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import daedal
from daedal.artifact.artifact import Artifact
from daedal.common.errors import ModelError

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
Nodes = Sequence[onnx.NodeProto]


def info(name: str, kind: int = FLOAT, shape: Sequence[int | None] = (3,)) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def sign_branches(outer: str, result: str, axes_operand: bool) -> list[onnx.NodeProto]:
    """``tanh(outer) if max(outer) > 0 else -outer``, with a Squeeze that changed in opset 13."""
    squeeze = ["total"] if not axes_operand else ["total", "axes"]
    attributes = {} if axes_operand else {"axes": [0]}
    then = [
        helper.make_node("Unsqueeze", [outer, "axes"], ["u"])
        if axes_operand
        else helper.make_node("Unsqueeze", [outer], ["u"], axes=[0]),
        helper.make_node("Tanh", ["u"], ["e"]),
        helper.make_node("Squeeze", ["e", *squeeze[1:]], ["then_y"], **attributes),
    ]
    other = [helper.make_node("Neg", [outer], ["else_y"])]
    branches = {
        "then_branch": helper.make_graph(then, "then", [], [info("then_y", shape=(None,))]),
        "else_branch": helper.make_graph(other, "else", [], [info("else_y", shape=(None,))]),
    }
    return [
        helper.make_node("ReduceMax", [outer], ["total"], keepdims=0),
        helper.make_node("Greater", ["total", "zero"], ["positive"]),
        helper.make_node("If", ["positive"], [result], **branches),
    ]


def loop(inner: Nodes, value: str, result: str, count: str = "count") -> onnx.NodeProto:
    """A Loop that runs `inner`, from "v" to "w", and collects every "w"."""
    body = helper.make_graph(
        [*inner, helper.make_node("Identity", ["going"], ["still"])],
        f"body of {result}",
        [info("number", INT64, ()), info("going", BOOL, ()), info("v")],
        [info("still", BOOL, ()), info("w"), info("w_again")],
    )
    body.node.append(helper.make_node("Identity", ["w"], ["w_again"]))
    return helper.make_node("Loop", [count, "", value], [result, f"{result}_all"], body=body)


def model(
    nodes: Nodes,
    opset: int,
    functions: Sequence[onnx.FunctionProto] = (),
    shape: Sequence[int | None] = (None,),
) -> bytes:
    values = {
        "zero": np.float32(0),
        "count": np.int64(3),
        "axes": np.array([0], np.int64),
        "half": np.float32(0.5),
    }
    graph = helper.make_graph(
        nodes,
        "control",
        [info("x")],
        [info("y", shape=shape)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in values.items()],
    )
    opsets = [helper.make_opsetid("", opset)]
    if functions:
        opsets.append(helper.make_opsetid("own", 1))
    made = helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=10)
    return bytes(made.SerializeToString())


def if_model(opset: int) -> bytes:
    return model(sign_branches("x", "y", opset >= 13), opset)


def loop_model(opset: int) -> bytes:
    halved = [helper.make_node("Mul", ["v", "half"], ["w"])]
    nodes = [loop(halved, "x", "r"), helper.make_node("Relu", ["r_all"], ["y"])]
    return model(nodes, opset, shape=(None, 3))


def nested_model(opset: int) -> bytes:
    """A Loop around a Loop around an If."""
    inner = [
        *sign_branches("v", "b", opset >= 13),
        helper.make_node("Mul", ["b", "half"], ["w"]),
    ]
    middle = [
        loop(inner, "v", "m"),
        helper.make_node("Sub", ["m", "half"], ["w"]),
    ]
    return model([loop(middle, "x", "r"), helper.make_node("Relu", ["r"], ["y"])], opset)


def function_model(opset: int) -> bytes:
    """Functions that call each other, the inner one in a branch."""
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("own", 1)]
    inner = [helper.make_node("Tanh", ["a"], ["b"])]
    calls = [helper.make_node("inner", ["a"], ["c"], domain="own")]
    other = [helper.make_node("Neg", ["a"], ["d"])]
    outer = [
        helper.make_node("ReduceMax", ["a"], ["m"], keepdims=0),
        helper.make_node("Constant", [], ["z"], value=numpy_helper.from_array(np.float32(0))),
        helper.make_node("Less", ["z", "m"], ["positive"]),
        helper.make_node(
            "If",
            ["positive"],
            ["b"],
            then_branch=helper.make_graph(calls, "then", [], [info("c", shape=(None,))]),
            else_branch=helper.make_graph(other, "else", [], [info("d", shape=(None,))]),
        ),
    ]
    functions = [
        helper.make_function("own", "inner", ["a"], ["b"], inner, opsets[:1]),
        helper.make_function("own", "outer", ["a"], ["b"], outer, opsets),
    ]
    return model([helper.make_node("outer", ["x"], ["y"], domain="own")], opset, functions)


Array = npt.NDArray[np.float32]
HALF = np.float32(0.5)


def branched(x: Array) -> Array:
    return np.tanh(x) if x.max() > 0 else -x


def nested(x: Array) -> Array:
    for _ in range(3):
        for _ in range(3):
            x = branched(x) * HALF
        x = x - HALF
    return np.maximum(x, 0)


MODELS: dict[str, tuple[Callable[[int], bytes], Callable[[Array], Array]]] = {
    "if": (if_model, branched),
    "loop": (loop_model, lambda x: np.maximum([x / 2, x / 4, x / 8], 0)),
    "nested": (nested_model, nested),
    "functions": (function_model, branched),
}
"""By name: what makes a model of an opset, and what it computes."""


@pytest.mark.parametrize("opset", [11, 13, 21])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("levels", [None, ()])
def test_models_run(name: str, opset: int, levels: tuple[str, ...] | None) -> None:
    """Compiled, and interpreted."""
    make, wanted = MODELS[name]
    compiled = daedal.compile(make(opset), target="cpu", cpu_levels=levels)
    artifact = Artifact.from_bytes(compiled.to_bytes())
    for values in ([1.0, -2.0, 0.5], [-1.0, -2.0, -0.25]):
        x = np.array(values, np.float32)
        (found,) = daedal.simulate(artifact, {"x": x}).outputs.values()
        np.testing.assert_allclose(found, wanted(x), rtol=1e-5, atol=1e-6)


def test_an_accelerator_refuses_loops() -> None:
    with pytest.raises(ModelError, match="or compile for target 'cpu'"):
        daedal.compile(loop_model(21), "vta")


@pytest.mark.parametrize(
    ("op_type", "domain"), [("Gelu", "com.example"), ("FusedGelu", "com.microsoft")]
)
def test_operators_that_nothing_runs(op_type: str, domain: str) -> None:
    graph = onnx.helper.make_graph(
        [helper.make_node(op_type, ["x"], ["y"], domain=domain, name="n")],
        "g",
        [info("x")],
        [info("y")],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(domain, 1)]
    given = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    with pytest.raises(ModelError) as caught:
        daedal.compile(given.SerializeToString(), target="cpu")
    assert str(caught.value) == (
        "operators must be compiled, or run by ONNX's reference evaluator, and "
        f"{domain}.{op_type} is neither (node 'n'); replace it in the model"
    )
