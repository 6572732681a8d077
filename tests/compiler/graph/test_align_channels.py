"""Moves of channels that fit no block become products with zeros and ones, and mean the same."""

import numpy as np
import pytest

from daedal.common.errors import UnsupportedError
from daedal.compiler.graph import Graph, run, verify
from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import AttrValue
from daedal.compiler.graph.passes import align_channels
from daedal.compiler.graph.types import TensorType

BLOCK = 16
FINISH: dict[str, AttrValue] = {"zero_point": 4, "low": -90, "high": 100}


def moved(op: str, channels: tuple[int, ...], attrs: dict[str, AttrValue]) -> Graph:
    """One move over maps of 5x6 with so many channels each."""
    builder = GraphBuilder("moves")
    maps = [
        builder.input(f"x{index}", TensorType((2, count, 5, 6), "int8"))
        for index, count in enumerate(channels)
    ]
    rows = np.array([[9 - index, 50_000 + index, 16] for index in range(len(maps))])
    params = builder.constant("p", rows.astype(np.int64))
    builder.add(op, [*maps, params], {**attrs, **FINISH}, output="y")
    return builder.finish(["y"])


def part(begins: tuple[int, ...], ends: tuple[int, ...], steps: tuple[int, ...]) -> dict:
    return {"begins": (0, *begins), "ends": (2, *ends), "steps": (1, *steps)}


def pads(*values: int) -> dict:
    return {"pads": values, "pad_value": -3}


@pytest.mark.parametrize(
    ("op", "channels", "attrs", "expected"),
    [
        ("q_slice", (40,), part((16, 1, 0), (35, 5, 6), (1, 2, 3)), ["q_slice"]),
        ("q_slice", (40,), part((7, 0, 0), (35, 5, 6), (1, 2, 3)), ["q_conv2d"]),
        ("q_slice", (40,), part((0, 0, 0), (40, 5, 6), (3, 1, 1)), ["q_conv2d"]),
        ("q_slice", (40,), part((7, 1, 0), (35, 5, 6), (2, 2, 3)), ["q_slice", "q_conv2d"]),
        ("q_pad", (20,), pads(0, 16, 1, 2, 0, 0, 0, 3), ["q_pad"]),
        ("q_pad", (32,), pads(0, 0, 0, 0, 0, 5, 0, 0), ["q_pad"]),
        ("q_pad", (20,), pads(0, 0, 1, 2, 0, 5, 0, 3), ["q_conv2d"]),
        ("q_pad", (32,), pads(0, 3, 0, 0, 0, 0, 0, 0), ["q_conv2d"]),
        ("q_concat", (16, 32, 5), {"channels": (16, 32, 5)}, ["q_concat"]),
        ("q_concat", (16, 3, 5), {"channels": (16, 3, 5)}, ["q_concat", "q_conv2d"]),
    ],
)
def test_same_values(
    op: str,
    channels: tuple[int, ...],
    attrs: dict[str, AttrValue],
    expected: list[str],
    rng: np.random.Generator,
) -> None:
    graph = moved(op, channels, attrs)
    aligned = align_channels(graph, block=BLOCK)
    verify(aligned)
    assert [node.op for node in aligned.nodes] == expected
    inputs = {
        name: rng.integers(-128, 128, graph.types[name].shape).astype(np.int8)
        for name in graph.inputs
    }
    found = run(aligned, inputs)["y"]
    np.testing.assert_array_equal(found, run(graph, inputs)["y"])
    assert found.std() > 10


def test_what_the_products_are() -> None:
    """The example of the docstring."""
    aligned = align_channels(moved("q_pad", (16,), pads(0, 8, 0, 0, 0, 8, 0, 0)), block=BLOCK)
    (node,) = aligned.nodes
    assert node.inputs == ("x0", "y.select", "y.params")
    weights = aligned.constant("y.select")
    np.testing.assert_array_equal(weights[:, :, 0, 0], np.eye(32, 16, k=-8))
    # Channels without products have the pad value in their bias: 9 - 3.
    np.testing.assert_array_equal(aligned.constant("y.params")[[0, 8, 24], 0], [6, 9, 6])


def test_lanes_of_16_bits_cannot_move() -> None:
    """A product reads 8 bits; the sentence says which tensor the host must compute."""
    builder = GraphBuilder("moves")
    builder.input("x", TensorType((1, 40, 5, 1), "int16"))
    params = builder.constant("p", np.array([[0, 1, 0]]))
    whole = {"zero_point": 0, "low": -(1 << 15), "high": (1 << 15) - 1}
    ends = {"begins": (0, 7, 0, 0), "ends": (1, 8, 5, 1), "steps": (1, 1, 1, 1)}
    builder.add("q_slice", ["x", params], {**ends, **whole}, output="y")
    with pytest.raises(UnsupportedError, match="16 bits must move by whole blocks") as raised:
        align_channels(builder.finish(["y"]), block=BLOCK)
    assert raised.value.tensor == "y"
