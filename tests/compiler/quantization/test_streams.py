"""Residual streams have one scale, and terms whose bounds add up to 16 bits."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import daedal
from daedal.checking.integer_reference import run_onnxruntime
from daedal.checking.layer_check import check_layers
from daedal.compiler.graph.graph import Array
from daedal.compiler.quantization import quantize_model
from tests.compiler.quantization.float_networks import signal_to_noise_db
from tests.compiler.quantization.float_transformers import DEPTH, TOKENS, FloatTransformer

SHAPE = (1, TOKENS, DEPTH)


def blocks(rng: np.random.Generator, count: int, sizes: float = 1.0) -> onnx.ModelProto:
    """Layers that add to the projection of the input, and read it through norms."""
    net = FloatTransformer(rng)
    x = net.dense(net.input("x", SHAPE), DEPTH, DEPTH)
    for number in range(count):
        update = net.dense(net.layer_norm(x), DEPTH, DEPTH)
        if sizes != 1:
            update = net.op("Mul", update, net.number(sizes**number))
        x = net.op("Add", x, update)
    return net.model(net.op("MatMul", net.layer_norm(x), net.normal(DEPTH, 4), output="y"))


def quantized(model: onnx.ModelProto, rng: np.random.Generator) -> onnx.ModelProto:
    samples = rng.normal(size=(16, *SHAPE[1:])).astype(np.float32)
    return quantize_model(model.SerializeToString(), {"x": samples})


def values_of(model: onnx.ModelProto) -> dict[str, Array]:
    return {x.name: numpy_helper.to_array(x) for x in model.graph.initializer}


def bounds_of(model: onnx.ModelProto) -> list[tuple[int, int]]:
    """Of the integers that each Clip leaves."""
    constants = values_of(model)
    users = {node.input[0]: node for node in model.graph.node}
    found = []
    for node in model.graph.node:
        if node.op_type == "Clip":
            scale = constants[users[node.output[0]].input[1]]
            low, high = (float(constants[name]) / float(scale) for name in node.input[1:])
            assert abs(low - round(low)) < 1e-2 and abs(high - round(high)) < 1e-2
            found.append((round(low), round(high)))
    return found


@pytest.mark.parametrize("count", [1, 3, 9])
def test_bounds_of_all_terms_have_a_sum_of_16_bits(count: int, rng: np.random.Generator) -> None:
    result = quantized(blocks(rng, count), rng)
    bounds = bounds_of(result)
    assert len(bounds) == count + 1
    assert all(low % 256 == 0 and high == -low - 1 for low, high in bounds)
    lowest = sum(low for low, _ in bounds)
    assert lowest >= -(1 << 15)
    assert lowest <= -(1 << 14), "no bits are given away"


def test_a_stream_has_one_scale(rng: np.random.Generator) -> None:
    result = quantized(blocks(rng, 3), rng)
    constants = values_of(result)
    producers = {name: node for node in result.graph.node for name in node.output}
    sums = [node for node in result.graph.node if node.op_type == "Add" and node.name != ""]
    scales = {
        float(constants[producers[name].input[1]])
        for node in sums
        for name in node.input
        if name in producers
        and producers[name].op_type == "DequantizeLinear"
        and constants[producers[name].input[2]].dtype == np.int16
    }
    assert len(scales) == 1


def test_too_many_terms_have_no_bounds(rng: np.random.Generator) -> None:
    """Each takes at least one of 128 steps of the bounds, and rounding up takes more."""
    assert not bounds_of(quantized(blocks(rng, 70), rng))


def test_sums_on_the_machine_are_one_addition(rng: np.random.Generator) -> None:
    model = blocks(rng, 3)
    result = quantized(model, rng)
    artifact = daedal.compile(result.SerializeToString(), "attention")
    layers = [layer.op for launch in artifact.launches for layer in launch.layers]
    assert layers.count("q_conv2d_sum") == 3
    values = rng.normal(size=(4, *SHAPE)).astype(np.float32)
    for sample in (*values, 1e4 * values[0]):
        assert check_layers(artifact, result, {"x": sample}).passed
    expected, found = (
        np.concatenate([run_onnxruntime(item, {"x": x})[0] for x in values])
        for item in (model, result)
    )
    assert signal_to_noise_db(expected, found) > 25
