"""`daedal.quantize(..., exclude=)`: named nodes compute on floats, all others as before."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import daedal
from bench.float_network import FloatNetwork
from daedal.common.errors import ModelError
from daedal.compiler.quantization.quantizer import quantize_model
from tests.compiler.quantization.float_networks import evaluate, signal_to_noise_db
from tests.compiler.quantization.float_transformers import DEPTH, TOKENS, FloatTransformer

NODES = ("first", "second", "third")


def network(rng: np.random.Generator) -> onnx.ModelProto:
    """Three convolutions with ReLUs, the second with a batch norm."""
    net = FloatNetwork(rng)
    x = net.op("Relu", net.conv(net.input("x", (1, 3, 9, 9)), 3, 8))
    x = net.op("Relu", net.batch_norm(net.conv(x, 8, 8), 8))
    model = net.model(net.conv(x, 8, 8))
    convolutions = [node for node in model.graph.node if node.op_type == "Conv"]
    for node, name in zip(convolutions, NODES, strict=True):
        node.name = name
    (norm,) = (node for node in model.graph.node if node.op_type == "BatchNormalization")
    norm.name = "norm"
    return model


def images(rng: np.random.Generator, count: int = 8) -> np.ndarray:
    return rng.normal(size=(count, 3, 9, 9)).astype(np.float32)


def float_weights(model: onnx.ModelProto) -> list[str]:
    """Nodes whose weights are floats in the model's initializers."""
    kinds = {item.name: item.data_type for item in model.graph.initializer}
    return [
        node.name
        for node in model.graph.node
        if node.op_type == "Conv" and kinds.get(node.input[1]) == onnx.TensorProto.FLOAT
    ]


@pytest.mark.parametrize("names", [("second",), ("first", "third")])
def test_excluded_nodes_keep_their_floats(rng: np.random.Generator, names: tuple[str, ...]) -> None:
    model, x = network(rng), images(rng)
    result = quantize_model(model, x, exclude=names)
    onnx.checker.check_model(result)
    assert tuple(float_weights(result)) == names
    (expected,) = evaluate(model, {"x": x[:1]}).values()
    (found,) = evaluate(result, {"x": x[:1]}).values()
    (without,) = evaluate(quantize_model(model, x), {"x": x[:1]}).values()
    assert signal_to_noise_db(expected, found) > signal_to_noise_db(expected, without)


def test_the_host_runs_them_and_the_accelerator_the_others(rng: np.random.Generator) -> None:
    data = daedal.quantize(network(rng), images(rng), exclude=["second"])
    placed = {
        item.node: item.where
        for item in daedal.compile(data, "tiny", host=None, cpu_levels=()).placements
    }
    assert [placed[name] for name in NODES] == ["accelerator", "host", "accelerator"]


def test_a_node_without_a_name_is_named_by_its_result(rng: np.random.Generator) -> None:
    model, x = network(rng), images(rng)
    node = next(item for item in model.graph.node if item.name == "second")
    output = node.output[0]
    named = quantize_model(model, x, exclude=["second"])
    node.name = ""
    found = quantize_model(model, x, exclude=[output])
    assert float_weights(named) == ["second"] and len(float_weights(found)) == 1


@pytest.mark.heavy(4)
def test_products_of_attention(rng: np.random.Generator) -> None:
    """The scores' product alone is in floats: the attention is not fused, its other one is
    quantized."""
    model = FloatTransformer(rng).encoder()
    product = next(
        node
        for node in model.graph.node
        if node.op_type == "MatMul"
        and not {*node.input} & {item.name for item in model.graph.initializer}
    )
    product.name = "scores"
    x = rng.normal(size=(4, TOKENS, DEPTH)).astype(np.float32)
    result = quantize_model(model, x, exclude=["scores"])
    producers = {name: node for node in result.graph.node for name in node.output}
    (kept,) = (node for node in result.graph.node if node.name == "scores")
    (user,) = (node for node in result.graph.node if kept.output[0] in node.input)
    assert user.op_type != "QuantizeLinear" or producers[user.input[0]] is kept
    (expected,) = evaluate(model, {"x": x[:1]}).values()
    (found,) = evaluate(result, {"x": x[:1]}).values()
    assert signal_to_noise_db(expected, found) > 20


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["secnd"], r"must be one of the model's, and 'secnd' is none; did you mean 'second'\?"),
        (["norm"], "'norm' is merged with another one before it is quantized"),
        (NODES, "all that could be are excluded; exclude fewer"),
    ],
)
def test_what_cannot_be_excluded(rng: np.random.Generator, names: list[str], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        quantize_model(network(rng), images(rng, 2), exclude=names)


def test_nothing_else_changes(rng: np.random.Generator) -> None:
    """The weights of the others are those that they are without exclusions."""
    model, x = network(rng), images(rng)
    whole, part = (
        {item.name: numpy_helper.to_array(item) for item in made.graph.initializer}
        for made in (quantize_model(model, x), quantize_model(model, x, exclude=["third"]))
    )
    weights = [name for name, value in part.items() if value.ndim == 4 and value.dtype == np.int8]
    assert len(weights) == 2
    for name in weights:
        np.testing.assert_array_equal(whole[name], part[name])
