"""Batch norms of quantized models: folded exactly, made depthwise, or left where they must stay."""

from typing import Any

import numpy as np
import onnx
import pytest

import daedal
from bench.qdq_model import QdqModel
from daedal.checking.integer_reference import compare_operators, processor_graph, run_onnxruntime
from daedal.common.errors import ModelError
from daedal.compiler.frontend import load_onnx
from daedal.compiler.graph import Graph, run, verify
from daedal.compiler.graph.passes import fold_batch_norm, fold_constants
from tests.compiler.graph.qdq_models import Array

VTA = daedal.load_variant("vta")
CHANNELS = 6
STEP = 0.05


def add_norm(maker: QdqModel, x: str, *parameters: Array, **attrs: Any) -> str:
    operands = [maker.constant(item.astype(np.float32)) for item in parameters]
    return maker.op("BatchNormalization", x, *operands, **attrs)


def drawn(rng: np.random.Generator, channels: int = CHANNELS) -> list[Array]:
    """Scale of both signs, bias, mean, variance."""
    scale = rng.uniform(0.2, 2, channels) * np.resize([1, -1], channels)
    bias, mean = rng.normal(0, 1, (2, channels))
    return [scale, bias, mean, rng.uniform(0.5, 2, channels)]


def add_layer(maker: QdqModel, kind: str, values: Array | None = None) -> str:
    """A quantized layer of `CHANNELS` outputs over x; its weights are never -128 unless given."""
    rng = np.random.default_rng(1)
    shapes = {
        "conv": (CHANNELS, 3, 3, 3),
        "grouped": (CHANNELS, 1, 3, 3),
        "transposed": (3, CHANNELS, 2, 2),
        "dense": (8, CHANNELS),
        "dense_transposed": (CHANNELS, 8),
    }
    shape = shapes[kind]
    axis = {"transposed": 1, "dense": 1}.get(kind, 0)
    if values is None:
        values = rng.integers(-127, 128, shape).astype(np.int8)
    scales = rng.uniform(0.01, 0.02, CHANNELS).astype(np.float32)
    weights = maker.weights(values, scales, axis)
    bias = maker.bias(rng.integers(-900, 900, CHANNELS), scales * np.float32(STEP))
    in_shape = (2, 8) if kind.startswith("dense") else (1, 3, 7, 5)
    x = maker.dequantize(maker.input("x", in_shape, "int8"), STEP, 5)
    if kind.startswith("dense"):
        return maker.op("Gemm", x, weights, bias, transB=int(kind == "dense_transposed"))
    if kind == "transposed":
        return maker.op("ConvTranspose", x, weights, bias, strides=[2, 2])
    return maker.op("Conv", x, weights, bias, group=3 if kind == "grouped" else 1)


def check(model: onnx.ModelProto, rng: np.random.Generator, num_layers: int = 1) -> Graph:
    """All on the accelerator, and at most 1 from onnxruntime; the integer graph."""
    graph = processor_graph(model.SerializeToString(), VTA)
    verify(graph)
    assert not any(node.op in ("batch_norm", "quantize") for node in graph.nodes), str(graph)
    x = rng.integers(-128, 128, graph.types["x"].shape).astype(np.int8)
    found = compare_operators(model, graph, {"x": x})
    assert len(found) == num_layers
    assert max(item.largest for item in found) <= 1, found
    return graph


@pytest.mark.parametrize("kind", ["conv", "grouped", "transposed", "dense", "dense_transposed"])
def test_it_folds_into_the_layer_before(rng: np.random.Generator, kind: str) -> None:
    maker = QdqModel()
    y = maker.op("Relu", add_norm(maker, add_layer(maker, kind), *drawn(rng)))
    maker.quantize(y, 0.03, -100, output="y")
    check(maker.model("y", dtype="int8"), rng)


def test_a_negative_gain_negates_the_weights() -> None:
    maker = QdqModel()
    x = maker.dequantize(maker.input("x", (1, 1, 1, 1), "int8"), 1.0, 0)
    w = maker.weights(np.array([3, -4], np.int8).reshape(2, 1, 1, 1), 0.5)
    ones = np.ones(2)
    parameters = [np.array([-2.0, 1.0]), ones, ones * 3, ones - 0.5]
    y = add_norm(maker, maker.op("Conv", x, w), *parameters, epsilon=0.5)
    maker.quantize(y, 1.0, 0, output="y")
    graph = fold_batch_norm(
        fold_constants(load_onnx(maker.model("y", dtype="int8").SerializeToString()))
    )
    verify(graph)
    (layer,) = (node for node in graph.nodes if node.op == "conv2d")
    (dequantize,) = (node for node in graph.nodes if node.output == layer.inputs[1])
    weights, scales, zeros = (graph.constant(name) for name in dequantize.inputs)
    np.testing.assert_array_equal(weights.ravel(), [-3, -4])
    np.testing.assert_array_equal(scales, np.float32([1.0, 0.5]))
    np.testing.assert_array_equal(zeros, [0, 0])
    # bias - mean * gain
    np.testing.assert_array_equal(graph.constant(layer.inputs[2]), np.float32([7.0, -2.0]))


def test_one_after_a_dequantize_becomes_depthwise(rng: np.random.Generator) -> None:
    maker = QdqModel()
    x = maker.dequantize(maker.input("x", (1, CHANNELS, 5, 4), "int8"), 0.02, 9)
    x = maker.op("MaxPool", x, kernel_shape=[2, 2])
    maker.quantize(add_norm(maker, x, *drawn(rng)), 0.04, -3, output="y")
    model = maker.model("y", dtype="int8")
    graph = processor_graph(model.SerializeToString(), VTA)
    assert [node.op for node in graph.nodes] == ["q_max_pool", "q_conv2d"]
    assert graph.nodes[1].attrs["groups"] == CHANNELS
    x_q = rng.integers(-128, 128, graph.types["x"].shape).astype(np.int8)
    (expected,) = run_onnxruntime(model, {"x": x_q})
    found = run(graph, {"x": x_q})["y"]
    assert np.abs(found.astype(int) - expected).max() <= 1


def test_one_after_another_folds_too(rng: np.random.Generator) -> None:
    maker = QdqModel()
    y = add_norm(maker, add_norm(maker, add_layer(maker, "conv"), *drawn(rng)), *drawn(rng))
    maker.quantize(y, 0.1, 0, output="y")
    check(maker.model("y", dtype="int8"), rng)


def test_gains_of_zero_and_almost_zero_keep_their_offsets(rng: np.random.Generator) -> None:
    maker = QdqModel()
    scale, bias, mean, variance = drawn(rng)
    scale[:3] = 0, 1e-12, -1e-30
    bias[:3] = 1.5, -1.25, 2.0
    y = add_norm(maker, add_layer(maker, "conv"), scale, bias, mean, variance)
    maker.quantize(y, 0.03, 0, output="y")
    check(maker.model("y", dtype="int8"), rng)


@pytest.mark.parametrize(("step", "zero_point"), [(4.0, 0), (0.2, -1)])
def test_a_weight_of_minus_128_is_negated(
    rng: np.random.Generator, step: float, zero_point: int
) -> None:
    """Clipped where the result cannot tell, else 127 with a zero point of -1: in float the same."""
    maker = QdqModel()
    values = rng.integers(-128, 128, (CHANNELS, 3, 3, 3)).astype(np.int8)
    values[1, 0, 0, 0] = -128
    scale, bias, mean, variance = drawn(rng)
    scale[1], variance[1] = -2, 1
    y = add_norm(maker, add_layer(maker, "conv", values), scale, bias, mean, variance)
    maker.quantize(y, step, 0, output="y")
    model = maker.model("y", dtype="int8")
    graph = fold_constants(load_onnx(model.SerializeToString()))
    folded = fold_batch_norm(graph)
    verify(folded)
    (layer,) = (node for node in folded.nodes if node.op == "conv2d")
    weights, _, zeros = (folded.constant(name) for name in folded.producers[layer.inputs[1]].inputs)
    assert zeros[1] == zero_point and weights[1, 0, 0, 0] == 127
    x = rng.integers(-128, 128, graph.types["x"].shape).astype(np.int8)
    before = run(graph, {"x": x}, [graph.nodes[-1].inputs[0]])
    after = run(folded, {"x": x}, [folded.nodes[-1].inputs[0]])
    ((expected,), (found,)) = before.values(), after.values()
    tolerance = 1e-4 if zero_point else step / 2
    assert np.abs(found - expected).max() <= tolerance
    check(model, rng)


def test_weights_of_9_bits_fold_too(rng: np.random.Generator) -> None:
    """uint8 weights less their zero point, of both signs of the gain."""
    maker = QdqModel()
    x = maker.dequantize(maker.input("x", (1, 3, 7, 5), "int8"), STEP, 5)
    values = rng.integers(0, 256, (CHANNELS, 3, 3, 3)).astype(np.uint8)
    scale = maker.constant(np.float32(0.01))
    zero = maker.constant(np.array(7, np.uint8))
    weights = maker.op("DequantizeLinear", maker.constant(values), scale, zero)
    y = add_norm(maker, maker.op("Conv", x, weights), *drawn(rng))
    maker.quantize(y, 0.5, 0, output="y")
    check(maker.model("y", dtype="int8"), rng)


def test_float_ones_and_shared_layers_stay(rng: np.random.Generator) -> None:
    maker = QdqModel()
    x = maker.input("x", (1, CHANNELS, 3, 3))
    maker.op("Relu", add_norm(maker, x, *drawn(rng)), output="y")
    model = maker.model("y")
    graph = load_onnx(model.SerializeToString())
    assert fold_batch_norm(graph) is graph
    images = rng.normal(0, 1, (1, CHANNELS, 3, 3)).astype(np.float32)
    (expected,) = run_onnxruntime(model, {"x": images})
    np.testing.assert_allclose(run(graph, {"x": images})["y"], expected, rtol=1e-5, atol=1e-6)


def test_a_layer_that_others_read_keeps_its_result(rng: np.random.Generator) -> None:
    maker = QdqModel()
    x = add_layer(maker, "conv")
    maker.quantize(add_norm(maker, x, *drawn(rng)), 0.1, 0, output="y")
    maker.quantize(x, 0.1, 0, output="z")
    graph = fold_constants(load_onnx(maker.model("y", "z", dtype="int8").SerializeToString()))
    assert fold_batch_norm(graph) is graph


def test_parameters_must_fit_the_channels() -> None:
    maker = QdqModel()
    x = maker.input("x", (1, 3, 2, 2))
    maker.op("Identity", add_norm(maker, x, *(np.ones(1) for _ in range(4))), output="y")
    with pytest.raises(ModelError, match=r"one value per channel \(3\), not shape \[1\]"):
        load_onnx(maker.model("y").SerializeToString())
