"""Valid forms of operators that the accelerator runs in other forms only: the host runs them."""

from collections.abc import Callable

import numpy as np
import pytest
from onnx import TensorProto, helper

import daedal
from bench.qdq_model import QdqModel
from daedal.checking.onnxruntime_session import open_session
from daedal.common.errors import ModelError

Maker = Callable[[QdqModel, str, np.random.Generator], str]
SHAPE = (1, 8, 4, 6)
STEP = 0.125
"""Exact in float, so that both truncate equal integers."""


def floats(maker: QdqModel, rng: np.random.Generator, *shape: int) -> str:
    return maker.constant(rng.normal(size=shape).astype(np.float32))


def gemm(*bias: int) -> Maker:
    """With the layer's result as (8, 24), and 5 columns."""

    def make(maker: QdqModel, x: str, rng: np.random.Generator) -> str:
        rows = maker.op("Reshape", x, maker.constant(np.array([8, 24])))
        return maker.op("Gemm", rows, floats(maker, rng, 24, 5), floats(maker, rng, *bias))

    return make


def of_integers(maker: QdqModel, x: str, rng: np.random.Generator) -> str:
    """Casts to int8 give no quantized tensor, and sums of these are no Add on the accelerator."""
    whole = maker.op("Cast", x, to=TensorProto.INT8)
    twice = maker.op("Transpose", maker.op("Add", whole, whole), perm=[0, 2, 3, 1])
    return maker.op("Cast", twice, to=TensorProto.FLOAT)


def of_a_vector(maker: QdqModel, x: str, rng: np.random.Generator) -> str:
    vector = maker.op("Reshape", x, maker.constant(np.array([192])))
    return maker.op("MatMul", vector, floats(maker, rng, 192, 3))


FORMS: dict[str, Maker] = {
    "weights for each image": lambda m, x, rng: m.op("MatMul", x, floats(m, rng, 8, 6, 3)),
    "weights of more dimensions": lambda m, x, rng: m.op("MatMul", x, floats(m, rng, 1, 1, 6, 3)),
    "a vector of weights": lambda m, x, rng: m.op("MatMul", x, floats(m, rng, 6)),
    "a vector": of_a_vector,
    "a bias for each element": gemm(8, 5),
    "a bias for each row": gemm(8, 1),
    "one bias": gemm(1, 1),
    "one bias without dimensions": gemm(),
    "int8 that is not quantized": of_integers,
}


@pytest.mark.parametrize("form", FORMS)
def test_the_host_runs_valid_forms(form: str, rng: np.random.Generator) -> None:
    maker = QdqModel(19)
    weights = maker.weights(rng.integers(-127, 128, (8, 8, 1, 1)).astype(np.int8), 0.01)
    x = maker.requantized(maker.input("x", SHAPE), 0.05, 3)
    x = maker.requantized(maker.op("Conv", x, weights), STEP, 3)
    y = maker.requantized(FORMS[form](maker, x, rng), 0.5, -3)
    model = maker.model(y)
    artifact = daedal.compile(model.SerializeToString(), "tiny", host=None, cpu_levels=())
    assert [item.where for item in artifact.placements if item.op == "Conv"] == ["accelerator"]
    inputs = {"x": rng.normal(size=SHAPE).astype(np.float32)}
    (found,) = daedal.simulate(artifact, inputs).outputs.values()
    (wanted,) = open_session(model)(inputs)
    np.testing.assert_allclose(found, wanted, atol=0.5 * 1.01)  # a unit after quantization
    assert daedal.check_layers(artifact, model.SerializeToString(), inputs).passed


def test_outputs_may_be_constant(rng: np.random.Generator) -> None:
    """Of a sum of constants, and dequantized weights."""
    maker = QdqModel()
    weights = maker.weights(rng.integers(-127, 128, (8, 8, 1, 1)).astype(np.int8), 0.01)
    x = maker.requantized(maker.input("x", SHAPE), 0.05, 3)
    maker.requantized(maker.op("Conv", x, weights), STEP, 3, output="y_q")
    twice = maker.op("Add", *[floats(maker, rng, 2, 3)] * 2)
    model = maker.model(maker.nodes[-2].output[0], twice, weights)
    artifact = daedal.compile(model.SerializeToString(), "tiny", host=None, cpu_levels=())
    inputs = {"x": rng.normal(size=SHAPE).astype(np.float32)}
    found = daedal.simulate(artifact, inputs).outputs
    for array, item in zip(open_session(model)(inputs), model.graph.output, strict=True):
        np.testing.assert_allclose(found[item.name], array, atol=STEP * 1.01)


def test_biases_that_do_not_fit_are_refused(rng: np.random.Generator) -> None:
    maker = QdqModel()
    x = maker.requantized(maker.input("x", SHAPE), 0.05, 3)
    y = gemm(8, 5)(maker, x, rng)
    maker.initializers[-1].CopyFrom(
        helper.make_tensor(maker.initializers[-1].name, TensorProto.FLOAT, [4], np.zeros(4))
    )
    graph = helper.make_graph(maker.nodes, "damaged", maker.inputs, [], maker.initializers)
    graph.output.append(helper.make_tensor_value_info(y, TensorProto.FLOAT, [8, 5]))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    with pytest.raises(ModelError, match="the bias must have one value per output channel"):
        daedal.compile(model.SerializeToString(), "tiny")
