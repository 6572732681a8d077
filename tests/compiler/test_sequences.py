"""Networks over sequences (N, C, L) run as maps of height 1: all products in one launch."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import pytest

import daedal
from bench.float_network import FloatNetwork
from daedal.artifact.artifact import Artifact
from tests.compiler.quantization.float_networks import evaluate, signal_to_noise_db
from tests.support.quantized_models import quantize_with_onnxruntime

LENGTH = 48


def keyword_network(*, residual: bool = False, reduce: bool = False) -> onnx.ModelProto:
    """Three convolutions with batch norms, pools between and after them, and a classifier."""
    network = FloatNetwork(np.random.default_rng(11), opset=19)
    x = network.input("sound", [1, 20, LENGTH])

    def layer(x: str, inner: int, outer: int, **attrs: object) -> str:
        weights = network.normal(outer, inner, 3, scale=(2 / inner / 3) ** 0.5)
        attrs.setdefault("pads", [1, 1])
        y = network.op("Conv", x, weights, network.normal(outer, scale=0.2), **attrs)
        return network.op("Relu", network.batch_norm(y, outer))

    x = layer(x, 20, 32, strides=[2])
    x = network.op("MaxPool", x, kernel_shape=[2], strides=[2])
    y = layer(x, 32, 32, dilations=[2], pads=[2, 2])
    x = layer(network.op("Add", x, y) if residual else y, 32, 40, auto_pad="SAME_UPPER", pads=None)
    x = network.op("AveragePool", x, kernel_shape=[3], pads=[1, 1])
    if reduce:
        x = network.op("ReduceMean", x, network.constant(np.array([-1])), keepdims=0)
    else:
        x = network.op("Flatten", network.op("GlobalAveragePool", x))
    network.op("Gemm", x, network.normal(40, 12, scale=0.2), network.normal(12), output="scores")
    return network.model("scores")


def samples(count: int) -> npt.NDArray[np.float32]:
    return np.random.default_rng(3).normal(0, 1, (count, 20, LENGTH)).astype(np.float32)


def check(artifact: Artifact, model: bytes, *, has_reference: bool = True) -> None:
    """One launch has all layers; its bytes are those of the integer reference, and its results are
    close to those of ONNX's reference evaluator, if that knows the operators."""
    assert len(artifact.launches) == 1
    hosted = {item.op for item in artifact.placements if item.where == "host"}
    # A sequence that the quantizer wrote is a map of one row: a view.
    assert hosted <= {"QuantizeLinear", "DequantizeLinear", "Reshape", "Transpose"}
    feeds = {"sound": samples(1)}
    compared = [item.difference for item in daedal.check_layers(artifact, model, feeds).tensors]
    assert compared and all(item is None or not item.num_different for item in compared)
    if not has_reference:
        return
    outputs = daedal.simulate(artifact, feeds, device="functional").outputs
    for name, expected in evaluate(onnx.load_from_string(model), feeds).items():
        assert signal_to_noise_db(expected, outputs[name]) > 30, name


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("reduce", [False, True])
def test_a_quantized_sequence_network_runs_in_one_launch(residual: bool, reduce: bool) -> None:
    model = keyword_network(residual=residual, reduce=reduce)
    quantized = daedal.quantize(model.SerializeToString(), {"sound": samples(8)})
    check(daedal.compile(quantized, "vta", host=None), quantized)


def test_operators_between_convolutions_run_in_the_launch() -> None:
    network = FloatNetwork(np.random.default_rng(12), opset=19)
    x = network.input("sound", [1, 20, LENGTH])
    x = network.op("Relu", network.op("Conv", x, network.normal(20, 20, 1, scale=0.3)))
    x = network.batch_norm(x, 20)
    zero = network.constant(np.zeros((), np.float32))
    x = network.op("Pad", x, network.constant(np.array([0, 0, 2, 0, 0, 0])), zero)
    depthwise = network.normal(20, 1, 3, scale=0.6)
    x = network.op("Conv", x, depthwise, network.normal(20), group=20)
    y = network.op("ConvTranspose", x, network.normal(20, 16, 4, scale=0.2), strides=[2])
    z = network.op("Conv", y, network.normal(16, 16, 1, scale=0.3))
    x = network.op("Concat", network.op("Mul", y, z), z, axis=1)
    x = network.op("MaxPool", network.op("LeakyRelu", x, alpha=0.1), kernel_shape=[8], strides=[8])
    network.op("Conv", x, network.normal(8, 32, 1, scale=0.2), output="scores")
    model = network.model("scores")
    quantized = daedal.quantize(model.SerializeToString(), {"sound": samples(8)})
    check(daedal.compile(quantized, "vta", host=None), quantized)


def test_the_host_may_give_sequences_with_channels_last() -> None:
    network = FloatNetwork(np.random.default_rng(13), opset=19)
    x = network.input("sound", [1, 20, LENGTH])
    x = network.op("Transpose", x, perm=[0, 2, 1])
    x = network.op("Conv", x, network.normal(8, LENGTH, 3, scale=0.2))
    network.op("Transpose", x, perm=[0, 2, 1], output="scores")
    model = network.model("scores")
    quantized = daedal.quantize(model.SerializeToString(), {"sound": samples(8)})
    check(daedal.compile(quantized, "vta", host=None), quantized)


@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
def test_models_of_quantize_static_run_in_one_launch(tmp_path: Path, form: str) -> None:
    feeds = [{"sound": item[None]} for item in samples(8)]
    model = quantize_with_onnxruntime(
        keyword_network(residual=True), tmp_path, feeds, form, activation_type="QInt8"
    ).SerializeToString()
    check(daedal.compile(model, "vta", host=None), model, has_reference=form == "QDQ")
