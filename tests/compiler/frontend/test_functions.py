"""Functions of a model's own: they are inlined, within bounds."""

import numpy as np
import onnx
import pytest
from onnx import helper

import daedal
from bench.qdq_model import QdqModel
from daedal.checking.integer_reference import run_onnxruntime
from daedal.common.errors import ModelError
from daedal.compiler.frontend.functions import MAX_CALL_DEPTH
from daedal.compiler.frontend.reader import read_model

OPSETS = [helper.make_opsetid("", 13), helper.make_opsetid("own", 1)]


def function(name: str, *calls: str) -> onnx.FunctionProto:
    """One operator after the other, each applied to the result of the one before."""
    tensors = [f"t{number}" for number in range(len(calls) + 1)]
    nodes = [
        helper.make_node(
            call, [tensors[n]], [tensors[n + 1]], domain="" if call == "Relu" else "own"
        )
        for n, call in enumerate(calls)
    ]
    return helper.make_function("own", name, [tensors[0]], [tensors[-1]], nodes, OPSETS)


def calling(name: str, *functions: onnx.FunctionProto) -> onnx.ModelProto:
    """A quantized layer between two calls of function `name`."""
    maker = QdqModel()
    x = maker.input("x", (1, 5, 6, 6))
    x = maker.requantized(maker.op(name, x), 0.05, -3)
    w = maker.weights(np.arange(-62, 63).reshape(5, 5, 5, 1).astype(np.int8)[:, :, :1], 0.01)
    y = maker.op(name, maker.op("Conv", x, w))
    model = maker.model(maker.requantized(y, 0.1, 0))
    # ONNX's inference does not look into functions.
    out = model.graph.output[0]
    out.CopyFrom(helper.make_tensor_value_info(out.name, onnx.TensorProto.FLOAT, [1, 5, 6, 6]))
    for node in model.graph.node:
        if node.op_type == name:
            node.domain = "own"
    model.opset_import.append(OPSETS[1])
    model.functions.extend(functions)
    return model


def refusal(model: onnx.ModelProto) -> str:
    with pytest.raises(ModelError) as error:
        read_model(model.SerializeToString())
    return str(error.value)


def test_calls_are_replaced_by_what_they_stand_for(rng: np.random.Generator) -> None:
    model = calling("twice", function("twice", "once", "once"), function("once", "Relu"))
    inlined = read_model(model.SerializeToString())
    kinds = [node.op_type for node in inlined.graph.node]
    assert not inlined.functions and kinds.count("Relu") == 4 and "twice" not in kinds
    artifact = daedal.compile(model.SerializeToString(), "tiny")
    assert [layer.op for layer in artifact.layers] == ["q_conv2d"]
    inputs = {"x": rng.normal(size=(1, 5, 6, 6)).astype(np.float32)}
    (found,) = daedal.simulate(artifact, inputs).outputs.values()
    (expected,) = run_onnxruntime(model, inputs)
    assert np.abs(found - expected).max() <= 0.101


def test_functions_that_call_themselves() -> None:
    assert refusal(calling("f", function("f", "g"), function("g", "f"))) == (
        "functions of a model must not call each other deeper than 64 levels, and 'f' does; inline "
        "them at export"
    )


@pytest.mark.parametrize("leaf_first", [False, True])
def test_functions_that_call_each_other_too_deep(leaf_first: bool) -> None:
    last = MAX_CALL_DEPTH
    functions = [function(f"f{n}", f"f{n + 1}") for n in range(last)]
    model = calling("f0", *functions, function(f"f{last}", "Relu"))
    if leaf_first:
        # A call of each of them first, the deepest ahead: none is met below another.
        nodes = [
            helper.make_node(f"f{n}", ["x"], [f"unused{n}"], domain="own")
            for n in reversed(range(last + 1))
        ]
        kept = list(model.graph.node)
        del model.graph.node[:]
        model.graph.node.extend([*nodes, *kept])
    assert "deeper than 64 levels" in refusal(model)


def test_functions_that_double_at_every_level() -> None:
    functions = [function(f"f{n}", f"f{n + 1}", f"f{n + 1}") for n in range(40)]
    assert refusal(calling("f0", *functions, function("f40", "Relu"))) == (
        "a model must have at most 100000 nodes with its functions inlined, not "
        f"{2 * 2**40 + 6}; split it"
    )
