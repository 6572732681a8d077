"""Products with padding: as many as a count of all taps finds, and none of the others left out."""

from typing import Any

import numpy as np
import pytest

import daedal
from bench.qdq_model import QdqModel
from daedal.artifact.artifact import Artifact
from daedal.compiler.ops.accelerator.padding_macs import taps_inside

LAYERS = {
    "conv": ("Conv", (1, 8, 7, 6), (8, 8, 3, 3), {"pads": [1, 1, 1, 1]}),
    "uneven": ("Conv", (1, 8, 7, 6), (8, 8, 4, 3), {"pads": [3, 0, 1, 2], "strides": [2, 1]}),
    "dilated": ("Conv", (1, 8, 9, 9), (8, 8, 3, 3), {"pads": [3, 3, 3, 3], "dilations": [3, 2]}),
    "depthwise": ("Conv", (1, 8, 7, 6), (8, 1, 3, 3), {"pads": [1, 1, 1, 1], "group": 8}),
    "grouped": ("Conv", (1, 16, 5, 5), (16, 8, 3, 3), {"pads": [1, 1, 1, 1], "group": 2}),
    "image": ("Conv", (1, 3, 12, 12), (8, 3, 5, 5), {"pads": [2, 2, 2, 2], "strides": [2, 2]}),
    "mostly": ("Conv", (1, 8, 2, 2), (8, 8, 7, 7), {"pads": [3, 3, 3, 3]}),
    "none": ("Conv", (1, 8, 7, 6), (8, 8, 3, 3), {}),
    "transposed": (
        "ConvTranspose",
        (1, 8, 5, 4),
        (8, 8, 3, 4),
        {"pads": [1, 2, 0, 1], "strides": [2, 2]},
    ),
}


def compiled(name: str, rng: np.random.Generator) -> Artifact:
    op, shape, kernel, attrs = LAYERS[name]
    maker = QdqModel()
    x = maker.requantized(maker.input("x", shape), 0.05, 0)
    weights = maker.weights(rng.integers(-127, 128, kernel).astype(np.int8), 0.01)
    model = maker.model(maker.requantized(maker.op(op, x, weights, **attrs), 0.08, 3))
    return daedal.compile(model.SerializeToString(), "tiny")


def counted(op: str, shape: tuple[int, ...], kernel: tuple[int, ...], attrs: Any) -> int:
    """Taps that meet a pixel, one by one, times the channels that each combines."""
    strides, dilations = attrs.get("strides", [1, 1]), attrs.get("dilations", [1, 1])
    pads = attrs.get("pads", [0, 0, 0, 0])
    total = kernel[0] * kernel[1]
    for axis in range(2):
        size, taps = shape[2 + axis], kernel[2 + axis]
        reach = (taps - 1) * dilations[axis] + 1
        around = pads[axis] + pads[2 + axis]
        if op == "Conv":
            windows, limit = (size + around - reach) // strides[axis] + 1, size
        else:
            windows, limit = size, (size - 1) * strides[axis] + reach - around
        total *= sum(
            0 <= window * strides[axis] + tap * dilations[axis] - pads[axis] < limit
            for window in range(windows)
            for tap in range(taps)
        )
    return total


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str, rng: np.random.Generator) -> None:
    artifact = compiled(name, rng)
    (layer,) = artifact.layers
    assert layer.needed_macs == counted(*LAYERS[name])
    assert (layer.padding_macs == 0) == (name == "none")
    # The array makes no fewer, so no layer is at more than all of its peak.
    (profile,) = daedal.profile(artifact, device="timing").layers
    assert layer.needed_macs <= profile.products * profile.mode_macs_per_cycle
    assert profile.ideal_cycles <= profile.cycles and profile.share < 1


def test_what_has_no_window_has_no_padding(rng: np.random.Generator) -> None:
    maker = QdqModel()
    x = maker.requantized(maker.input("x", (1, 8, 5, 5)), 0.05, 0)
    y = maker.op("MaxPool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    weights = maker.weights(rng.integers(-127, 128, (4, 200)).astype(np.int8), 0.01)
    flat = maker.op("Flatten", maker.requantized(y, 0.05, 0))
    model = maker.model(maker.requantized(maker.op("Gemm", flat, weights, transB=1), 0.08, 3))
    layers = daedal.compile(model.SerializeToString(), "tiny").layers
    assert [(layer.macs, layer.padding_macs) for layer in layers] == [(0, 0), (800, 0)]


def test_taps_of_windows() -> None:
    assert taps_inside(4, 4, 3, 1, 1, 1) == 10
    assert taps_inside(4, 2, 3, 2, 1, 1) == 5
    assert taps_inside(2, 2, 3, 1, 2, 2) == 2
