"""Whole networks through the quantizer: close to float, and every operator from integers."""

import sys
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx
import pytest

import daedal
from bench.float_network import FloatNetwork
from daedal.checking.integer_reference import compare_operators, processor_graph, run_onnxruntime
from daedal.common.errors import ModelError
from daedal.compiler.graph import run_all
from daedal.compiler.graph.graph import Array
from daedal.compiler.graph.ops.registry import runs_on
from daedal.compiler.quantization import Method, quantize_model
from daedal.compiler.quantization.calibration import calibrate
from daedal.compiler.quantization.calibration.float_runner import (
    FloatRunner,
    OpenModel,
    make_runner,
)
from daedal.compiler.quantization.calibration.samples import Samples
from daedal.compiler.quantization.float_model import FloatModel
from daedal.compiler.targets.names import ACCELERATOR
from tests.compiler.quantization.float_networks import evaluate, signal_to_noise_db

VTA = daedal.load_variant("vta")
SHAPE = (1, 3, 13, 11)
HOST = {"quantize", "dequantize", "onnx", "reshape", "softmax"}


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


def foreign(net: FloatNetwork) -> onnx.ModelProto:
    """As AlexNet: normalizations that stay in float, between layers; an older opset."""
    net.opset = 9
    x = net.op("Relu", net.conv(net.input("x", ("batch", *SHAPE[1:])), 3, 8, 5))
    x = net.op("MaxPool", net.op("LRN", x, size=5), kernel_shape=[3, 3], strides=[2, 2])
    x = net.op("Relu", net.conv(net.op("Dropout", x), 8, 12, group=2))
    shape = net.constant(np.array([1, -1], np.int64))
    x = net.op("Gemm", net.op("Reshape", x, shape), net.normal(360, 5, scale=0.1), net.normal(5))
    return net.model(net.op("Softmax", x, axis=1, output="y"))


def upsampling(net: FloatNetwork) -> onnx.ModelProto:
    """Transposed convolutions, resizes, padding, slices, gates and other elementwise operators."""
    x = net.op("Relu", net.conv(net.input("x", SHAPE), 3, 3, 1))
    x = net.op("Mul", x, net.normal(1, 3, 1, 1))
    x = net.op("HardSwish", net.conv(x, 3, 8, strides=[2, 2]))
    gate = net.op("Sigmoid", net.conv(net.op("GlobalAveragePool", x), 8, 8, 1))
    x = net.op("LeakyRelu", net.op("Mul", x, gate), alpha=0.1)
    y = net.op("ConvTranspose", x, net.normal(8, 8, 2, 2, scale=0.3), net.normal(8), strides=[2, 2])
    scales = net.constant(np.float32([1, 1, 2, 2]))
    z = net.op("Resize", x, "", scales, mode="nearest", coordinate_transformation_mode="asymmetric")
    pads = net.constant(np.array([0, 0, 1, 0, 0, 0, 0, 1], np.int64))
    starts, ends, axes = (net.constant(np.array(v, np.int64)) for v in ([1, 0], [15, 12], [2, 3]))
    z = net.op("Slice", net.op("Pad", z, pads), starts, ends, axes)
    x = net.op("Sub", net.op("Add", y, z), net.normal(1, 8, 14, 12))
    x = net.op("Clip", x, "", net.constant(np.float32(1.5)))
    return net.model(net.conv(x, 8, 4, 1, output="y"))


NETWORKS: list[Callable[[FloatNetwork], onnx.ModelProto]] = [plain, branches, foreign, upsampling]


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


@pytest.mark.parametrize("build", [plain, branches, upsampling])
def test_all_between_input_and_output_is_computed_from_integers(
    rng: np.random.Generator, build: Callable[[FloatNetwork], onnx.ModelProto]
) -> None:
    samples = rng.normal(0, 1, (8, *SHAPE[1:])).astype(np.float32)
    quantized = quantize_model(build(FloatNetwork(rng)).SerializeToString(), samples)
    graph = processor_graph(quantized.SerializeToString(), VTA)
    assert {node.op for node in graph.nodes if not runs_on(node.op, ACCELERATOR)} <= HOST
    found = compare_operators(quantized, graph, {"x": samples[:1]})
    assert max(item.largest for item in found) <= 1, found


def test_scores_beside_boxes_keep_their_steps(rng: np.random.Generator) -> None:
    net = FloatNetwork(rng)
    x = net.op("Relu", net.conv(net.input("x", SHAPE), 3, 8))
    boxes = net.op("Mul", net.conv(x, 8, 4), net.constant(np.full(SHAPE[-1], 100, np.float32)))
    scores = net.op("Sigmoid", net.conv(x, 8, 5))
    model = net.model(net.op("Concat", boxes, scores, axis=1, output="y"))
    samples = rng.normal(0, 1, (8, *SHAPE[1:])).astype(np.float32)
    quantized = daedal.quantize(model.SerializeToString(), samples)
    feeds = {"x": samples[:1]}
    outputs = daedal.simulate(daedal.compile(quantized, VTA), feeds).outputs
    (expected,) = run_onnxruntime(model, feeds)
    assert np.abs(outputs["y"] - expected)[:, 4:].max() < 0.1


def test_the_machine_gives_what_the_integers_are(rng: np.random.Generator) -> None:
    images = rng.normal(0, 1, (4, *SHAPE[1:])).astype(np.float32)
    quantized = daedal.quantize(plain(FloatNetwork(rng)).SerializeToString(), images)
    outputs = daedal.simulate(daedal.compile(quantized, VTA), {"x": images[:1]}).outputs
    expected = run_all(processor_graph(quantized, VTA), {"x": images[:1]})["y"]
    # Softmax is in float on the host, by another implementation.
    np.testing.assert_allclose(outputs["y"].reshape(expected.shape), expected, rtol=1e-6)


def test_channel_shuffles_move_integers(rng: np.random.Generator) -> None:
    """As ShuffleNet: all around the shuffle has one scale, and its reshapes move int8."""
    net = FloatNetwork(rng)
    x = net.op("Relu", net.conv(net.input("x", SHAPE), 3, 12, 1))
    wide, flat = (net.constant(np.array(v, np.int64)) for v in ([1, 3, 4, 13, 11], [1, 12, 13, 11]))
    x = net.op("Transpose", net.op("Reshape", x, wide), perm=[0, 2, 1, 3, 4])
    model = net.model(net.conv(net.op("Reshape", x, flat), 12, 6, 1, group=3))
    samples = rng.normal(0, 1, (4, *SHAPE[1:])).astype(np.float32)
    graph = processor_graph(daedal.quantize(model.SerializeToString(), samples), VTA)
    assert [node.op for node in graph.nodes if node.op not in HOST] == [
        "q_conv2d",
        "transpose",
        "q_conv2d",
    ]


def test_results_that_are_outputs_keep_their_names(rng: np.random.Generator) -> None:
    net = FloatNetwork(rng)
    x = net.op("Relu", net.conv(net.input("x", SHAPE), 3, 4), output="inner")
    net.op("Add", net.conv(x, 4, 4), net.conv(x, 4, 4), output="y")
    net.op("Exp", x, output="z")
    model = net.model("inner", "y", "z")
    # Some exporters name nodes after what they compute; onnxruntime wants unique names of nodes.
    for node in model.graph.node:
        node.name = node.output[0]
    samples = rng.normal(0, 0.3, (4, *SHAPE[1:])).astype(np.float32)
    quantized = quantize_model(model.SerializeToString(), samples)
    assert [item.name for item in quantized.graph.output] == ["inner", "y", "z"]
    found, expected = (run_onnxruntime(item, {"x": samples[:1]}) for item in (quantized, model))
    for one, other in zip(found, expected, strict=True):
        assert signal_to_noise_db(other, one) > 25
    levels = np.unique(found[0])
    assert len(levels) <= 256, "the output is the dequantized tensor"


def test_products_of_activations(rng: np.random.Generator) -> None:
    net = FloatNetwork(rng)
    x, z = net.input("x", (2, 5, 8)), net.input("z", (2, 8, 6))
    net.op("MatMul", x, net.op("MatMul", z, net.normal(6, 7)), output="y")
    model = net.model("y")
    samples = {
        name: rng.normal(0, 1, (8, *shape)) for name, shape in (("x", (5, 8)), ("z", (8, 6)))
    }
    quantized = quantize_model(model.SerializeToString(), samples)
    inputs = {name: value[:2].astype(np.float32) for name, value in samples.items()}
    found, expected = (run_onnxruntime(item, inputs)[0] for item in (quantized, model))
    assert signal_to_noise_db(expected, found) > 30
    refuse(model, samples["x"], "samples must be arrays by name where a model has 2 inputs")
    samples["z"] = samples["z"][:6]
    refuse(model, samples, "all inputs must have the same number of samples, not [3, 4]")


@pytest.mark.parametrize("transposed", [0, 1])
def test_a_head_that_reads_one_token(rng: np.random.Generator, transposed: int) -> None:
    """A scalar index takes an axis away, also in the model that comes out."""
    net = FloatNetwork(rng)
    x = net.op("MatMul", net.input("x", (1, 7, 16)), net.normal(16, 32, scale=0.25))
    token = net.op("Gather", x, net.constant(np.int64(2)), axis=1)
    weights = net.normal(*((10, 32) if transposed else (32, 10)), scale=0.2)
    y = net.op("Gemm", token, weights, net.normal(10), transB=transposed, output="y")
    model = net.model(y)
    samples = rng.normal(size=(20, 7, 16)).astype(np.float32)
    data = daedal.quantize(model.SerializeToString(), samples)
    onnx.checker.check_model(onnx.load_from_string(data), full_check=True)
    artifact = daedal.compile(data, VTA, host=None)
    assert [item.where for item in artifact.placements if item.op in ("Gemm", "MatMul")] == [
        "accelerator",
        "accelerator",
    ]
    found = daedal.simulate(artifact, {"x": samples}).outputs["y"]
    expected = [evaluate(model, {"x": samples[k : k + 1]})["y"] for k in range(len(samples))]
    assert signal_to_noise_db(np.concatenate(expected), found.reshape(-1, 10)) > 30


def test_it_needs_no_onnxruntime(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    model = branches(FloatNetwork(rng)).SerializeToString()
    samples = rng.normal(0, 1, (3, *SHAPE[1:])).astype(np.float32)
    with_it = quantize_model(model, samples, method="minmax")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    without = quantize_model(model, samples, method="minmax")
    assert [node.output for node in without.graph.node] == [n.output for n in with_it.graph.node]
    for one, other in zip(with_it.graph.initializer, without.graph.initializer, strict=True):
        if one.name.endswith("_scale"):
            values = (onnx.numpy_helper.to_array(item) for item in (one, other))
            np.testing.assert_allclose(*values, rtol=1e-4)


@pytest.mark.parametrize("method", list(Method))
@pytest.mark.parametrize("build", [plain, branches, upsampling])
def test_the_last_bits_of_the_activations_do_not_matter(
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
    build: Callable[[FloatNetwork], onnx.ModelProto],
    method: str,
) -> None:
    """A processor with other vectors sums in another order."""
    model = build(FloatNetwork(rng)).SerializeToString()
    samples = rng.normal(0, 1, (6, *SHAPE[1:])).astype(np.float32)
    expected = quantize_model(model, samples, method=method)

    def nudging(model: FloatModel, tensors: Sequence[str], open_model: OpenModel) -> FloatRunner:
        runner = make_runner(model, tensors, open_model)

        def run(feeds: Mapping[str, Array], /) -> dict[str, Array]:
            return {
                name: value
                if name in model.graph.inputs
                else value * rng.choice(np.float32([1 - 2**-23, 1, 1 + 2**-23]), value.shape)
                for name, value in runner(feeds).items()
            }

        return run

    monkeypatch.setattr(calibrate, "make_runner", nudging)
    assert quantize_model(model, samples, method=method) == expected


def test_bounds_have_twelve_bits() -> None:
    for value in (0.0, 6.0, -4095.0, 2.0**-30):
        assert calibrate._rounded(value) == value
    assert calibrate._rounded(4096.9) == calibrate._rounded(4095.6) == 4096.0
    assert calibrate._rounded(-4097.1) == -4098.0


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
    refuse(model, {"z": good}, "and 'x' is missing; the model has 'x' of shape (1, 3, 13, 11)")
    refuse(model, {"x": good, "z": good}, "one array for each input, under its name, and 'z' is no")
    refuse(model, good.astype(complex), "samples of input 'x' must be float32, not complex128")
    refuse(model, good * np.nan, "samples must be finite, and input 'x' has NaN or infinite")
    refuse(model, good, "must go by one of minmax, percentile, mse, not 'max'", method="max")


def test_a_model_in_float16_is_told_its_type() -> None:
    net = FloatNetwork(np.random.default_rng(0))
    weights = net.constant(np.ones((4, 3, 1, 1), np.float16))
    y = net.op("Conv", net.input("x", SHAPE, "float16"), weights)
    samples = np.ones(SHAPE, np.float16)
    message = "must be in float32 to be quantized, and 'small' computes its 1 products (Conv) in"
    refuse(net.model(y, dtype="float16"), samples, message)


def test_activations_must_be_finite(rng: np.random.Generator) -> None:
    model = plain(FloatNetwork(rng))
    refuse(model, np.full(SHAPE, 3e38, np.float32), "becomes NaN or infinite with sample 0")


@pytest.mark.parametrize("sign", [-1, 1])
def test_activations_must_be_finite_on_both_sides(sign: int, rng: np.random.Generator) -> None:
    net = FloatNetwork(rng)
    weights = net.constant(np.full((4, 3, 1, 1), sign * 1e38, np.float32), name="w")
    model = net.model(net.op("Conv", net.input("x", SHAPE), weights))
    refuse(model, np.full(SHAPE, 9, np.float32), "becomes NaN or infinite with sample 0")


def test_samples_fill_whole_batches(rng: np.random.Generator) -> None:
    net, shape = FloatNetwork(rng), (2, *SHAPE[1:])
    weights = net.constant(np.ones((4, 3, 1, 1), np.float32), name="w")
    model = net.model(net.op("Conv", net.input("x", shape), weights))
    good = rng.normal(0, 1, (4, *shape[1:])).astype(np.float32)
    quantize_model(model.SerializeToString(), good)
    refuse(model, good[:3], "samples of input 'x' must have shape (2, 3, 13, 11), or several")


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
    refuse(model, np.zeros(SHAPE, np.float32), "becomes NaN or infinite with sample 0")
