"""Which layers get weights of 4 bits, and how the model says so."""

from collections.abc import Mapping

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import daedal
from bench.float_network import FloatNetwork
from daedal.checking.layer_check import check_layers
from daedal.checking.onnxruntime_session import open_session
from daedal.common.errors import ModelError
from daedal.compiler.quantization.input_moments import input_moments
from daedal.compiler.quantization.narrow_layers import LayerWeights
from daedal.compiler.quantization.quantizer import quantize_model
from daedal.isa.table import LoadMemory, Opcode
from daedal.isa.variant import load_variant
from daedal.sim.functional.device import FunctionalDevice
from tests.compiler.quantization.float_networks import simple_model

VARIANT = load_variant("tiny").replace("narrow", narrow_weights=True)


def network(rng: np.random.Generator) -> onnx.ModelProto:
    """A convolution of the input, a grouped and a depthwise one, and a dense layer."""
    net = FloatNetwork(rng, opset=21)
    x = net.op("Relu", net.conv(net.input("x", (1, 3, 8, 8)), 3, 16))
    x = net.op("Relu", net.conv(x, 16, 16, group=2))
    x = net.op("Relu", net.conv(x, 16, 16, group=16, strides=[2, 2]))
    x = net.op("Flatten", net.op("GlobalAveragePool", net.op("Relu", net.conv(x, 16, 24))))
    return net.model(net.op("Gemm", x, net.normal(24, 10, scale=0.3), net.normal(10)))


def inputs(rng: np.random.Generator, count: int = 24) -> dict[str, np.ndarray]:
    return {"x": rng.normal(size=(count, 3, 8, 8)).astype(np.float32)}


def quantized(
    model: onnx.ModelProto, samples: Mapping[str, np.ndarray], limit: float
) -> tuple[onnx.ModelProto, list[LayerWeights]]:
    layers: list[LayerWeights] = []
    result = quantize_model(
        model, samples, weights="int4", weight_error=limit, layers=layers.extend
    )
    return result, layers


@pytest.mark.slow
def test_layers_have_4_bits_up_to_the_limit(rng: np.random.Generator) -> None:
    model, samples = network(rng), inputs(rng)
    bits = {}
    for limit in (1e-6, 0.15, 1.0):
        result, layers = quantized(model, samples, limit)
        onnx.checker.check_model(result)
        bits[limit] = [item.bits for item in layers]
        chosen = [item.error for item in layers if item.bits == 4]
        assert sum(error**2 for error in chosen if error) <= limit**2
        kinds = [item.data_type for item in result.graph.initializer]
        # Weights, and a zero point for each output.
        assert kinds.count(onnx.TensorProto.INT4) == 2 * len(chosen)
    assert layers[0].error is None and layers[0].saved_bytes == 0
    assert bits[1e-6] == [8] * 5 and bits[1.0] == [8, 4, 4, 4, 4]
    assert 4 in bits[0.15]


def test_a_layer_whose_bias_needs_8_bits_is_told_to_have_them(rng: np.random.Generator) -> None:
    """One channel has small weights and a large bias, which has no room in steps of 4 bits."""
    net = FloatNetwork(rng, opset=21)
    x = net.op("Relu", net.conv(net.input("x", (1, 3, 4, 4)), 3, 4, 1))
    weights = rng.normal(size=(2, 4, 1, 1)).astype(np.float32)
    weights[1] *= 1e-9
    bias = net.constant(np.array([0.0, 1.0], np.float32))
    model = net.model(net.op("Conv", x, net.constant(weights), bias))
    samples = {"x": rng.normal(size=(8, 3, 4, 4)).astype(np.float32)}
    result, layers = quantized(model, samples, 1.0)
    kinds = [item.data_type for item in result.graph.initializer]
    assert onnx.TensorProto.INT4 not in kinds
    assert [(item.bits, item.saved_bytes) for item in layers] == [(8, 0), (8, 0)]


@pytest.mark.slow
def test_onnxruntime_and_the_machine_compute_what_is_left(rng: np.random.Generator) -> None:
    """INT4 in, per channel: the outputs of the float model come out, by onnxruntime and by a
    machine that loads the weights with 4 bits."""
    model, samples = network(rng), inputs(rng, 32)
    result, _ = quantized(model, samples, 1.0)
    artifact = daedal.compile(result.SerializeToString(), VARIANT)
    loads = [item.memory for launch in artifact.launches for item in launch.program.instructions
             if item.opcode is Opcode.LOAD]  # fmt: skip
    assert LoadMemory.WGT_NARROW in loads
    feeds = {"x": samples["x"][:1]}
    (name,) = (item.name for item in result.graph.output)
    (real,), (theirs,) = (open_session(item)(feeds) for item in (model, result))
    device = FunctionalDevice(VARIANT)
    check = check_layers(artifact, result.SerializeToString(), feeds, device=device)
    assert check.passed, check.first_difference
    ours = check.result.outputs[name]
    step = np.abs(theirs).max() / 100
    np.testing.assert_allclose(ours, theirs, atol=3 * step)
    assert np.abs(ours - real).max() < 0.35 * np.abs(real).max()


def test_models_of_int4_by_other_tools(rng: np.random.Generator) -> None:
    """Per tensor, and an odd number of weights."""
    net = FloatNetwork(rng, opset=21)
    x = net.requantized(net.input("x", (1, 3, 5, 5)), 0.05, 1)
    values = rng.integers(-8, 8, (3, 3, 1, 1))
    weights = net.dequantize(net.constant(values.astype(np.int8), "w"), 0.1, 0)
    model = net.model(net.requantized(net.op("Conv", x, weights), 0.05, -3))
    zero = next(node.input[2] for node in model.graph.node if node.input[0] == "w")
    for item in model.graph.initializer:
        if item.name in ("w", zero):
            array = numpy_helper.to_array(item)
            item.CopyFrom(
                onnx.helper.make_tensor(
                    item.name, onnx.TensorProto.INT4, array.shape, array.reshape(-1).tolist()
                )
            )
    onnx.checker.check_model(model)
    data, feeds = model.SerializeToString(), {"x": rng.normal(size=(1, 3, 5, 5)).astype(np.float32)}
    artifact = daedal.compile(data, VARIANT)
    found = check_layers(artifact, data, feeds, device=FunctionalDevice(VARIANT))
    assert found.passed
    (theirs,) = open_session(model)(feeds)
    (ours,) = found.result.outputs.values()
    np.testing.assert_allclose(ours, theirs, atol=0.0501)


@pytest.mark.slow
def test_products_with_scales_of_blocks_are_the_hosts(rng: np.random.Generator) -> None:
    """The accumulator only adds; what follows is the accelerator's."""
    net = FloatNetwork(rng, opset=21)
    x = net.requantized(net.input("x", (4, 32)), 0.05, 1)
    steps = net.constant(rng.integers(-8, 8, (32, 16)).astype(np.int8))
    scales = net.constant(rng.uniform(0.01, 0.1, (2, 16)).astype(np.float32))
    blocks = net.op("DequantizeLinear", steps, scales, axis=0, block_size=16)
    x = net.requantized(net.op("MatMul", x, blocks), 0.1, 0)
    weights = net.weights(rng.integers(-8, 8, (16, 8)).astype(np.int8), 0.05)
    model = net.model(net.requantized(net.op("MatMul", x, weights), 0.1, 0))
    artifact = daedal.compile(model.SerializeToString(), VARIANT, cpu_levels=())
    first, second = (item for item in artifact.placements if item.op == "MatMul")
    assert first.where == "host" and "must be constant and quantized" in first.why
    assert second.where == "accelerator"


def test_moments_are_of_what_weights_multiply(rng: np.random.Generator) -> None:
    """A layer's products have the mean square that follows from them."""
    model = simple_model(network(rng))
    layers = [node for node in model.graph.nodes if node.op in ("conv2d", "dense")]
    x = inputs(rng, 1)
    for node, moments in input_moments(model, layers, [x]):
        weights = model.graph.constant(node.inputs[1]).astype(np.float64)
        matrix = weights.T if node.op == "dense" and not node.attrs["transposed"] else weights
        parts = np.split(matrix.reshape(len(matrix), -1), len(moments))
        expected = sum(np.sum((part @ m) * part) for part, m in zip(parts, moments, strict=True))
        observed = model.to_onnx([node.output, *node.inputs[:1]])
        evaluator = onnx.reference.ReferenceEvaluator(observed)
        values = dict(zip(evaluator.output_names, evaluator.run(None, x), strict=True))
        products = values[node.output].astype(np.float64)
        bias = model.graph.constant(node.inputs[2]) if len(node.inputs) > 2 else np.zeros(1)
        products -= bias.reshape((1, -1, *[1] * (products.ndim - 2)))
        np.testing.assert_allclose(expected, np.sum(products**2), rtol=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": "int3"}, "weights must be int8 or int4, not 'int3'"),
        ({"weights": "int4", "weight_error": 0.0}, "must be a share above 0 and up to 1, not 0.0"),
        ({"weights": "int4", "weight_error": 1.5}, "must be a share above 0 and up to 1, not 1.5"),
    ],
)
def test_options_are_checked(
    options: dict[str, object], message: str, rng: np.random.Generator
) -> None:
    with pytest.raises(ModelError, match=message):
        daedal.quantize(network(rng).SerializeToString(), inputs(rng, 2), **options)  # type: ignore[arg-type]
