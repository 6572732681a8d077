"""What a compile reports as slow by construction: figures that follow from shapes."""

import numpy as np
import onnx
import pytest

import daedal
from bench.qdq_model import QdqModel
from daedal.artifact.artifact import Artifact
from daedal.isa.variant import Variant, load_variant
from daedal.reports.costs import cost_lines, costs_json, crossing_bytes

SIZE = 12
VTA = load_variant("vta")
ONE_TAP = VTA.replace("one_tap", depthwise_taps=1)


def convolution(
    channels: tuple[int, int], kernel: int = 3, group: int = 1, zero_point: int | None = None
) -> onnx.ModelProto:
    """Two convolutions: the first makes the channels of the one that is meant, named ``meant``."""
    rng = np.random.default_rng(4)
    model = QdqModel()
    x = model.requantized(model.input("x", (1, channels[0], SIZE, SIZE)), 0.05, 0)
    first = np.eye(channels[0], dtype=np.int8)[:, :, None, None] * 64
    x = model.requantized(model.op("Conv", x, model.weights(first, 1 / 64)), 0.05, 0)
    shape = (channels[1], channels[0] // group, kernel, kernel)
    if zero_point is None:
        weights = model.weights(rng.integers(-90, 91, shape).astype(np.int8), 0.01)
    else:
        values = rng.integers(10, 240, shape).astype(np.uint8)
        values[0, 0, 0, 0] = 255
        weights = model.dequantize(model.constant(values), 0.01, zero_point, "uint8")
    pads = [kernel // 2] * 4
    y = model.op("Conv", x, weights, group=group, pads=pads, output="meant")
    model.requantized(y, 0.05, 0, output="y")
    return model.model("y", dtype="int8")


def compiled(*args: object, variant: Variant = VTA, **kwargs: object) -> Artifact:
    model = convolution(*args, **kwargs)  # type: ignore[arg-type]
    return daedal.compile(model.SerializeToString(), variant, host=None)


def of_meant(artifact: Artifact) -> dict[str, str]:
    """Text by kind of the costs of the layer that is meant."""
    (layer,) = [item for item in artifact.layers if item.output == "y"]
    return {cost.kind: cost.text for cost in layer.costs}


@pytest.mark.parametrize(
    ("channels", "group", "kind", "text"),
    [
        ((17, 17), 1, "lanes", "17 -> 17 channels take 32 x 32 lanes, 28% of the array"),
        ((32, 32), 8, "groups", "8 groups of 4 channels, 4 in one product, use 25% of the array"),
    ],
)
def test_lanes_of_zeros_are_told_with_their_share(
    channels: tuple[int, int], group: int, kind: str, text: str
) -> None:
    artifact = compiled(channels, group=group)
    assert of_meant(artifact) == {kind: text}
    assert Artifact.from_bytes(artifact.to_bytes()) == artifact
    (line,) = [line for line in cost_lines(artifact) if text in line]
    assert line.startswith("slow by construction: ") and "'meant/Conv'" in line


@pytest.mark.parametrize(
    ("variant", "kernel", "text"),
    [
        (ONE_TAP, 3, "one channel per group uses 6% of the array"),  # 1 of 16 lanes
        (VTA, 5, "one channel per group uses 16% of the array"),  # 5 taps in 2 products of 16
    ],
    ids=["one tap", "three taps"],
)
def test_lanes_of_depthwise_products(variant: Variant, kernel: int, text: str) -> None:
    artifact = compiled((32, 32), kernel, group=32, variant=variant)
    assert of_meant(artifact) == {"depthwise": text}


def test_full_blocks_cost_nothing() -> None:
    assert of_meant(compiled((32, 32))) == {}


def test_three_taps_cost_nothing_where_the_bus_takes_longer() -> None:
    assert of_meant(compiled((32, 32), 3, group=32)) == {}


def test_costs_in_json_begin_with_the_largest() -> None:
    found = costs_json(compiled((17, 17)))
    cycles = [item["cycles"] for item in found]
    assert cycles == sorted(cycles, reverse=True) and found[0]["kind"] == "lanes"


def test_an_image_of_few_channels_is_told() -> None:
    model = QdqModel()
    x = model.requantized(model.input("x", (1, 3, 64, 64)), 0.05, 0)
    weights = model.weights(np.ones((64, 3, 7, 7), np.int8), 0.01)
    y = model.op("Conv", x, weights, strides=[2, 2], output="meant")
    model.requantized(y, 0.05, 0, output="y")
    artifact = daedal.compile(model.model("y", dtype="int8").SerializeToString(), "vta", host=None)
    assert of_meant(artifact).keys() == {"image"}


def test_bytes_that_cross_in_the_middle_are_told() -> None:
    model = QdqModel()
    weights = model.weights(np.ones((16, 16, 3, 3), np.int8), 0.01)
    x = model.requantized(model.input("x", (1, 16, SIZE, SIZE)), 0.05, 0)
    x = model.requantized(model.op("Conv", x, weights), 0.05, 0)
    x = model.requantized(model.op("Softplus", x), 0.05, 0)
    model.requantized(model.op("Conv", x, weights), 0.05, 0, output="y")
    artifact = daedal.compile(model.model("y", dtype="int8").SerializeToString(), "vta", host=None)
    assert crossing_bytes(artifact) == 2 * 16 * 10 * 10
    assert "2 launches exchange 3,200 bytes with the host" in cost_lines(artifact)[-1]


def test_weights_beyond_int8_are_told_with_their_factor() -> None:
    """One input channel of 32 has a weight of 255 - 120; it is multiplied twice."""
    artifact = compiled((32, 32), zero_point=120)
    assert of_meant(artifact)["weights"] == (
        "weights less their zero point exceed int8: 1.03 times the products"
    )
    assert "weights" not in of_meant(compiled((32, 32), zero_point=128))


def test_operands_that_are_read_twice_are_followed_once() -> None:
    """Of 64 functions ``x * sigmoid(x)`` in one layer, 2**64 paths lead back to its input."""
    maker = QdqModel()
    x = maker.requantized(maker.input("x", (1, 16, 4, 4)), 0.05, -3)
    for _ in range(64):
        x = maker.requantized(maker.op("Mul", x, maker.op("Sigmoid", x)), 0.05, -3)
    (layer,) = daedal.compile(maker.model(x), "attention", host=None).layers
    assert layer.macs == 0 and not layer.costs
