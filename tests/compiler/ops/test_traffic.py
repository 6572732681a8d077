"""Bytes of a layer moved once: the roofline's memory side."""

from pathlib import Path

import numpy as np
import pytest

import daedal
from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.layout import ActivationLayout
from daedal.compiler.graph.types import TensorType
from daedal.compiler.ops.accelerator.traffic import bytes_once, rows_touched

DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits" / "digits_qdq.onnx"

# Layer, input height, channels in and out, kernel, stride, pad, memory cycles at 8 bytes each:
# the convolutions of ResNet-18.
RESNET18 = [
    ("C1", 224, 3, 64, 7, 2, 3, 120_408),
    ("C2", 56, 64, 64, 3, 1, 1, 54_848),
    ("C3", 56, 64, 128, 3, 2, 1, 46_976),
    ("C4", 56, 64, 128, 1, 2, 0, 26_240),
    ("C7", 28, 128, 256, 1, 2, 0, 16_896),
    ("C9", 14, 256, 512, 3, 2, 1, 157_376),
    ("C11", 7, 512, 512, 3, 1, 1, 301_696),
]


@pytest.mark.parametrize(
    ("size", "inputs", "outputs", "kernel", "stride", "pad", "cycles"),
    [case[1:] for case in RESNET18],
    ids=[case[0] for case in RESNET18],
)
def test_rows_touched_of_resnet18(
    size: int, inputs: int, outputs: int, kernel: int, stride: int, pad: int, cycles: int
) -> None:
    out = (size + 2 * pad - kernel) // stride + 1
    rows = rows_touched(size, out, kernel, stride, pad, 1)
    weights = inputs * outputs * kernel**2
    assert inputs * rows * size + weights + outputs * out**2 + 8 * outputs == 8 * cycles


def test_a_slice_reads_the_rows_and_channels_that_it_keeps() -> None:
    builder = GraphBuilder("slice")
    builder.input("x", TensorType((1, 32, 9, 7), "int8", ActivationLayout(1, 16)))
    builder.constant("p", np.tile(np.array([0, 1, 0], dtype=np.int64), (1, 16, 1)))
    attrs = {"begins": (0, 16, 1, 0), "ends": (1, 32, 9, 7), "steps": (1, 1, 3, 2)}
    builder.add(
        "q_slice", ["x", "p"], {**attrs, "zero_point": 0, "low": -128, "high": 127}, output="y"
    )
    graph = builder.finish(["y"])
    moved = bytes_once(graph, graph.nodes[0], daedal.load_variant("vta"))
    assert moved == 16 * 3 * 7 + 16 * 3 * 4 + 8 * 16


def test_dilated_windows_skip_rows() -> None:
    assert rows_touched(9, 1, 3, 1, 0, 4) == 3
    assert rows_touched(9, 3, 1, 4, 0, 1) == 3
    assert rows_touched(4, 4, 3, 1, 1, 1) == 4


@pytest.mark.parametrize("name", ["vta", "tiny"])
def test_layers_of_the_digits_network(name: str) -> None:
    """Maps of 8x8, weights of 3x3, and eight bytes per output channel; a byte an element."""
    layers = daedal.compile(DIGITS, name).layers
    found = {layer.name: layer.bytes_once for layer in layers}
    assert found["conv0_linear"] == 64 + 16 * 9 + 16 * 64 + 8 * 16
    assert found["conv1_linear"] == 16 * 64 + 16 * 16 * 9 + 16 * 64 + 8 * 16
    # The addition has the convolution before it within: one map in, one more added, one out.
    assert found["add0_linear"] == 3 * 16 * 64 + 16 * 16 * 9 + 2 * 8 * 16
    assert found["maxpool0"] == 16 * 64 + 16 * 16 + 8 * 16
    assert found["fc0"] == 128 + 1280 + 10 + 8 * 10
