"""Concats along rows and pixels cost no cycles: each operand is stored where the result lies."""

from dataclasses import dataclass

import numpy as np
import pytest

import daedal
from bench.qdq_model import QdqModel
from daedal.checking.integer_reference import run_onnxruntime
from daedal.compiler.graph import run
from daedal.compiler.graph.graph import Graph
from daedal.compiler.graph.passes import move_transposes, split_joined_rows
from tests.compiler.graph.qdq_models import lower

Array = np.ndarray


def conv(maker: QdqModel, x: str, channels: tuple[int, int], scale: float, stride: int) -> str:
    values = np.random.default_rng(stride).integers(-127, 128, (*channels[::-1], 3, 3))
    weights = maker.weights(values.astype(np.int8), 0.004)
    y = maker.op("Conv", x, weights, pads=[1] * 4, strides=[stride] * 2)
    return maker.requantized(y, scale, 3)


@dataclass(frozen=True)
class Detector:
    """Rows of maps, each half as high and as wide as the one before it, joined or not.

    Parameters
    ----------
    size : rows and columns of the first map.
    width : channels of the maps.
    channels : of the rows of each map.
    form : how the rows are made: "anchors" of four numbers, "pixels" with the channels before or
        "tokens" with them last.
    """

    channels: tuple[int, ...]
    form: str
    size: int = 8
    width: int = 16
    variant: str = "tiny"

    def model(self, join: bool) -> bytes:
        maker = QdqModel()
        shape = (1, self.width, self.size, self.size)
        x = maker.requantized(maker.input("x", shape), 0.05, 0)
        rows = []
        for number, count in enumerate(self.channels):
            scale = 0.1 + 0.05 * number
            x = conv(maker, x, (self.width, self.width), 0.05, 2 if number else 1)
            y = conv(maker, x, (self.width, count), scale, 1)
            if self.form != "pixels":
                y = maker.op("Transpose", y, perm=[0, 2, 3, 1])
            views = {"anchors": [1, -1, 4], "pixels": [1, count, -1], "tokens": [1, -1, count]}
            y = maker.op("Reshape", y, maker.constant(np.array(views[self.form])))
            rows.append(maker.requantized(y, scale, 3))
        if join:
            axis = 2 if self.form == "pixels" else 1
            rows = [maker.requantized(maker.op("Concat", *rows, axis=axis), 0.2, -5)]
        outputs = [maker.op("Identity", y, output=f"y{n}") for n, y in enumerate(rows)]
        return maker.model(*outputs).SerializeToString()


@pytest.mark.parametrize(
    "detector",
    [
        Detector((12, 12), "anchors"),
        Detector((12, 8), "anchors"),
        Detector((40, 40), "pixels"),
        Detector((20, 20), "tokens"),
        Detector((36, 36, 36), "anchors", 12, 32, "vta"),
        Detector((36, 36, 36), "pixels", 12, 32, "vta"),
    ],
    ids=str,
)
def test_joined_heads_take_the_cycles_of_those_that_are_not(detector: Detector) -> None:
    """Channels of several blocks, and heads of different channels, which the host joins."""
    cycles = []
    shape = (1, detector.width, detector.size, detector.size)
    feeds = {"x": np.random.default_rng(1).normal(size=shape).astype(np.float32)}
    for join in (True, False):
        model = detector.model(join)
        artifact = daedal.compile(model, detector.variant)
        (launch,) = artifact.launches
        assert {layer.op for layer in launch.layers} <= {"q_conv2d", "q_conv2d_requantize"}
        (profile,) = daedal.simulate(artifact, feeds, device="timing").profiles
        cycles.append(profile.cycles or 0)
        if join:
            assert daedal.check_layers(artifact, model, feeds).passed
    assert 0 < cycles[0] <= 1.1 * cycles[1]


def rows_of(axis: int, order: tuple[int, ...], view: tuple[int, ...]) -> tuple[Graph, Array, Array]:
    """The graph of a concat of two transposed maps, what it gives, and what it should give."""
    maker = QdqModel()
    x = maker.requantized(maker.input("x", (1, 6, 4, 4)), 0.05, 0)
    parts = []
    for scale in (0.1, 0.15):
        weights = maker.weights(np.eye(6, dtype=np.int8).reshape(6, 6, 1, 1) * 9, 0.1)
        y = maker.op("Transpose", maker.op("Conv", x, weights), perm=order)
        y = maker.op("Reshape", y, maker.constant(np.array(view))) if view else y
        parts.append(maker.requantized(y, scale, 3))
    joined = maker.requantized(maker.op("Concat", *parts, axis=axis), 0.1, -5)
    maker.op("Identity", joined, output="y")
    model = maker.model("y")
    graph = move_transposes(lower(model))
    feeds = {"x": np.random.default_rng(axis).normal(size=(1, 6, 4, 4)).astype(np.float32)}
    return graph, run(graph, feeds)["y"], run_onnxruntime(model, feeds)[0]


@pytest.mark.parametrize(
    ("axis", "order", "view", "op"),
    [
        (2, (0, 1, 2, 3), (), "rows_view"),
        (3, (0, 1, 2, 3), (), "columns_view"),
        (1, (0, 1, 2, 3), (), "q_concat"),
        (1, (0, 2, 3, 1), (), "rows_view"),
        (2, (0, 2, 3, 1), (), "columns_view"),
        (3, (0, 2, 3, 1), (), "q_concat"),
        (1, (0, 2, 3, 1), (1, 16, 6), "rows_view"),
        (1, (0, 2, 3, 1), (1, 48, 2), "rows_view"),
        (2, (0, 1, 2, 3), (1, 6, 16), "rows_view"),
        (1, (0, 1, 2, 3), (1, 6, 16), "q_concat"),
        (2, (0, 2, 3, 1), (1, 16, 6), "q_concat"),
    ],
)
def test_every_axis_of_every_form(
    axis: int, order: tuple[int, ...], view: tuple[int, ...], op: str
) -> None:
    graph, found, expected = rows_of(axis, order, view)
    assert op in {node.op for node in graph.nodes}
    assert np.abs(found - expected).max() <= 0.1001


def test_convolutions_compute_their_blocks_apart(rng: np.random.Generator) -> None:
    graph, found, _ = rows_of(2, (0, 1, 2, 3), ())
    split = split_joined_rows(graph, block=4)
    ops = [node.op for node in split.nodes]
    assert (ops.count("q_conv2d"), ops.count("rows_view"), ops.count("q_concat")) == (4, 2, 1)
    feeds = {"x": np.random.default_rng(2).normal(size=(1, 6, 4, 4)).astype(np.float32)}
    np.testing.assert_array_equal(run(split, feeds)["y"], found)
