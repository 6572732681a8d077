"""Whole networks through the quantizer: close to float, and every operator from integers."""

from collections.abc import Callable

import numpy as np
import onnx
import pytest

import daedal
from daedal.check import compare_operators, integer_graph, run_onnxruntime
from daedal.compiler.graph import get_op, run_all
from daedal.compiler.quantization import Method, quantize_model
from daedal.compiler.quantization.samples import Samples
from daedal.isa.errors import ModelError
from tests.compiler.quantization.float_networks import FloatNetwork, signal_to_noise_db

VTA = daedal.load_variant("vta")
SHAPE = (1, 3, 13, 11)
HOST = {"quantize", "dequantize", "reshape", "softmax"}


def plain(net: FloatNetwork) -> onnx.ModelProto:
    """Convolutions, a residual sum, pools and a classifier."""
    x = net.op("Relu", net.conv(net.input("x", SHAPE), 3, 16))
    y = net.conv(net.op("Relu", net.conv(x, 16, 16)), 16, 16)
    x = net.op("Relu", net.op("Add", x, y))
    x = net.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = net.op("AveragePool", x, kernel_shape=[2, 2], pads=[1, 1, 0, 0])
    x = net.op("Flatten", net.op("GlobalAveragePool", net.conv(x, 16, 24, 1)))
    x = net.op("Gemm", x, net.normal(10, 24, scale=0.3), net.normal(10, scale=0.1), transB=1)
    return net.model(net.op("Softmax", x, output="y"))


def branches(net: FloatNetwork) -> onnx.ModelProto:
    """Batch norms that fold and one that stands, branches side by side, n-ary sums."""
    x = net.input("x", SHAPE)
    x = net.op("Relu", net.batch_norm(net.conv(x, 3, 8), 8))
    parts = [net.batch_norm(net.conv(x, 8, 8, kernel), 8) for kernel in (1, 3)]
    pooled = net.op("AveragePool", x, kernel_shape=[3, 3], pads=[1] * 4)
    x = net.op("Concat", *parts, pooled, axis=1)
    x = net.op("Relu", net.batch_norm(x, 24))
    x = net.op("Sum", *(net.conv(x, 24, 16, kernel) for kernel in (1, 3, 1)))
    return net.model(net.op("GlobalMaxPool", net.op("Relu", x), output="y"))


NETWORKS: list[Callable[[FloatNetwork], onnx.ModelProto]] = [plain, branches]


@pytest.mark.parametrize("method", list(Method))
@pytest.mark.parametrize("build", NETWORKS)
def test_int8_is_close_to_float(
    rng: np.random.Generator, build: Callable[[FloatNetwork], onnx.ModelProto], method: str
) -> None:
    model = build(FloatNetwork(rng))
    samples, images = rng.normal(0, 1, (2, 24, *SHAPE[1:])).astype(np.float32)
    quantized = quantize_model(model.SerializeToString(), samples, method=method)
    onnx.checker.check_model(quantized)
    results = [
        np.stack([run_onnxruntime(item, {"x": image[None]})[0] for image in images])
        for item in (model, quantized)
    ]
    assert signal_to_noise_db(*results) > 20


@pytest.mark.parametrize("build", NETWORKS)
def test_all_between_input_and_output_is_computed_from_integers(
    rng: np.random.Generator, build: Callable[[FloatNetwork], onnx.ModelProto]
) -> None:
    samples = rng.normal(0, 1, (8, *SHAPE[1:])).astype(np.float32)
    quantized = quantize_model(build(FloatNetwork(rng)).SerializeToString(), samples)
    graph = integer_graph(quantized.SerializeToString(), VTA)
    assert {node.op for node in graph.nodes if not get_op(node.op).on_accelerator} <= HOST
    found = compare_operators(quantized, graph, {"x": samples[:1]})
    assert max(item.largest for item in found) <= 1, found
    artifact = daedal.compile(quantized.SerializeToString(), VTA)
    outputs = daedal.simulate(artifact, {"x": samples[:1]}).outputs
    expected = run_all(graph, {"x": samples[:1]})["y"]
    # Softmax is in float on the host, by another implementation.
    np.testing.assert_allclose(outputs["y"].reshape(expected.shape), expected, rtol=1e-6)


def test_equal_arguments_give_equal_bytes(rng: np.random.Generator) -> None:
    model = branches(FloatNetwork(rng)).SerializeToString()
    samples = rng.normal(0, 1, (4, *SHAPE[1:])).astype(np.float32)
    assert daedal.quantize(model, samples) == daedal.quantize(model, {"x": samples})


def refuse(model: onnx.ModelProto, samples: Samples, message: str, **options: str) -> None:
    with pytest.raises(ModelError) as caught:
        quantize_model(model.SerializeToString(), samples, **options)
    assert message in str(caught.value)


def test_samples_must_fit(rng: np.random.Generator) -> None:
    model = plain(FloatNetwork(rng))
    good = rng.normal(0, 1, SHAPE).astype(np.float32)
    refuse(model, good[:0], "samples of input 'x' must have shape (1, 3, 13, 11), or several")
    refuse(model, good[:, :2], "several of it along axis 0, not (1, 2, 13, 11)")
    refuse(model, {"z": good}, "samples must be of the inputs 'x'; 'x' is missing")
    refuse(model, {"x": good, "z": good}, "samples must be of the inputs 'x'; 'z' is none of them")
    refuse(model, good.astype(complex), "samples of input 'x' must be float32, not complex128")
    refuse(model, good * np.nan, "samples must be finite, and input 'x' has NaN or infinite")
    refuse(model, good, "must go by one of minmax, percentile, mse, not 'max'", method="max")


def test_activations_must_be_finite(rng: np.random.Generator) -> None:
    model = plain(FloatNetwork(rng))
    refuse(model, np.full(SHAPE, 3e38, np.float32), "becomes NaN or infinite with sample 0")


def test_a_quantized_model_is_refused(rng: np.random.Generator) -> None:
    samples = rng.normal(0, 1, SHAPE).astype(np.float32)
    quantized = quantize_model(plain(FloatNetwork(rng)).SerializeToString(), samples)
    refuse(quantized, samples, "this one is quantized already (node 'x_q'")


def test_a_model_without_products_is_refused(rng: np.random.Generator) -> None:
    net = FloatNetwork(rng)
    model = net.model(net.op("Relu", net.input("x", SHAPE)))
    refuse(model, np.ones(SHAPE), "and 'small' has none; run it as it is")


def test_weights_must_be_finite(rng: np.random.Generator) -> None:
    net = FloatNetwork(rng)
    weights = net.constant(np.full((4, 3, 1, 1), 1e38, np.float32), name="w")
    mean = [net.constant(np.full(4, value, np.float32)) for value in (1e10, 0, 0, 1)]
    model = net.model(
        net.op("BatchNormalization", net.op("Conv", net.input("x", SHAPE), weights), *mean)
    )
    with np.errstate(over="ignore"):
        refuse(model, np.zeros(SHAPE, np.float32), "becomes NaN or infinite with sample 0")
