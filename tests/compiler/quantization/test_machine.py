"""Blocks of networks that people have, quantized: one launch each, which gives the integers."""

from collections.abc import Callable

import numpy as np
import onnx
import pytest

import daedal
from bench.float_network import FloatNetwork
from daedal.checking.integer_reference import processor_graph
from daedal.compiler.graph import run_all

VTA = daedal.load_variant("vta")
SHAPE = (1, 3, 12, 10)


def gated(net: FloatNetwork) -> str:
    """As MobileNet v3: hard gates, squeeze and excitation, depthwise layers, batch norms."""
    x = net.op("HardSwish", net.batch_norm(net.conv(net.input("x", SHAPE), 3, 16), 16))
    y = net.op("HardSwish", net.batch_norm(net.conv(x, 16, 32, 1), 32))
    y = net.batch_norm(net.conv(y, 32, 32, group=32), 32)
    gate = net.op("Relu", net.conv(net.op("GlobalAveragePool", y), 32, 8, 1))
    gate = net.op("HardSigmoid", net.conv(gate, 8, 32, 1), alpha=1 / 6)
    y = net.conv(net.op("HardSwish", net.op("Mul", y, gate)), 32, 16, 1)
    return net.op("Add", x, net.batch_norm(y, 16), output="y")


def shuffled(net: FloatNetwork) -> str:
    """As ShuffleNet v2: half of the channels go by, and a shuffle mixes the halves."""
    x = net.op("Relu", net.conv(net.input("x", SHAPE), 3, 32))
    net.nodes.append(onnx.helper.make_node("Split", [x], ["a", "b"], name="split", axis=1))
    y = net.op("Relu", net.batch_norm(net.conv("b", 16, 16, 1), 16))
    y = net.batch_norm(net.conv(y, 16, 16, group=16), 16)
    y = net.op("Concat", "a", net.op("Relu", net.conv(y, 16, 16, 1)), axis=1)
    wide, flat = (
        net.constant(np.array(shape, np.int64)) for shape in ((1, 2, 16, 12, 10), (1, 32, 12, 10))
    )
    y = net.op("Transpose", net.op("Reshape", y, wide), perm=[0, 2, 1, 3, 4])
    return net.conv(net.op("Reshape", y, flat), 32, 8, 1)


def dense(net: FloatNetwork) -> str:
    """As DenseNet: a batch norm after Concat; all that is joined has one scale."""
    x = net.op("Relu", net.conv(net.input("x", SHAPE), 3, 8))
    for channels in (8, 16):
        y = net.op("Relu", net.batch_norm(x, channels))
        x = net.op("Concat", x, net.conv(y, channels, 8), axis=1)
    return net.op("GlobalAveragePool", net.op("Relu", net.batch_norm(x, 24)), output="y")


def upsampled(net: FloatNetwork) -> str:
    """As the neck of a detector: pools side by side, and a map resized to join another."""
    x = net.op("LeakyRelu", net.conv(net.input("x", SHAPE), 3, 16), alpha=0.1)
    y = net.op("Relu", net.conv(x, 16, 16, strides=[2, 2]))
    pools = [net.op("MaxPool", y, kernel_shape=[k, k], pads=[k // 2] * 4) for k in (3, 5)]
    y = net.op("LeakyRelu", net.conv(net.op("Concat", y, *pools, axis=1), 48, 16, 1), alpha=0.1)
    scales = net.constant(np.float32([1, 1, 2, 2]))
    attrs = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    y = net.op("Resize", y, "", scales, mode="nearest", **attrs)
    return net.conv(net.op("Concat", y, x, axis=1), 32, 6, 1)


@pytest.mark.parametrize("build", [gated, shuffled, dense, upsampled])
def test_a_block_is_one_launch(
    rng: np.random.Generator, build: Callable[[FloatNetwork], str]
) -> None:
    net = FloatNetwork(rng)
    output = build(net)
    images = rng.normal(0, 1, (6, *SHAPE[1:])).astype(np.float32)
    quantized = daedal.quantize(net.model(output).SerializeToString(), images)
    artifact = daedal.compile(quantized, VTA)
    assert len(artifact.launches) == 1
    on_host = {item.op for item in artifact.placements if item.where == "host"}
    assert on_host <= {"QuantizeLinear", "DequantizeLinear"}
    found = daedal.simulate(artifact, {"x": images[:2]}).outputs[output]
    graph = processor_graph(quantized, VTA)
    expected = [run_all(graph, {"x": image[None]})[output] for image in images[:2]]
    np.testing.assert_array_equal(found.reshape(2, -1), np.reshape(expected, (2, -1)))
