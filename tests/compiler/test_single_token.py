"""Layers of few tokens on the machine: a norm's channels lie in rows of their own, however few."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import daedal
from daedal.checking.layer_check import check_layers

DEPTH = 40


@pytest.mark.parametrize("tokens", [1, 2, 3])
def test_a_norm_of_few_tokens(tokens: int, rng: np.random.Generator) -> None:
    constants = {
        "gain": rng.uniform(0.5, 2, DEPTH).astype(np.float32),
        "bias": rng.normal(size=DEPTH).astype(np.float32),
        "weights": rng.normal(0, DEPTH**-0.5, (DEPTH, DEPTH)).astype(np.float32),
    }
    nodes = [
        helper.make_node("LayerNormalization", ["x", "gain", "bias"], ["n"], name="norm", axis=-1),
        helper.make_node("MatMul", ["n", "weights"], ["y"], name="product"),
    ]
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, tokens, DEPTH)) for name in "xy"
    )
    tensors = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "norm", [x], [y], tensors)
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()
    samples = rng.normal(size=(16, tokens, DEPTH)).astype(np.float32)
    quantized = daedal.quantize(model, samples)
    artifact = daedal.compile(quantized, "attention", host=None, cpu_levels=())
    check = check_layers(artifact, quantized, {"x": samples[:1]})
    assert [item.layer.op for item in check.tensors if item.layer] == ["q_layer_norm", "q_conv2d"]
    assert check.passed
