"""Slices of a projection become convolutions of their own; results read otherwise stay whole."""

import numpy as np
import pytest

import daedal
from bench.qdq_model import QdqModel
from daedal.compiler.graph import GraphBuilder, TensorType, run, verify
from daedal.compiler.graph.ops.integer import IDENTITY, UNCHANGED
from daedal.compiler.graph.passes import split_projections
from daedal.compiler.graph.selection import PIXELWISE
from tests.compiler.graph.qdq_models import lower

CHANNELS = 31


def projected(kind: str, rng: np.random.Generator) -> tuple[QdqModel, str]:
    """A dense layer or a 1x1 convolution of one pixel."""
    maker = QdqModel()
    values = rng.integers(-99, 100, (CHANNELS, 15)).astype(np.int8)
    if kind == "dense":
        x = maker.requantized(maker.input("x", (1, 15)), 0.02, 0)
        y = maker.op("Gemm", x, maker.weights(values, 0.01), transB=1)
    else:
        x = maker.requantized(maker.input("x", (1, 15, 1, 1)), 0.02, 0)
        y = maker.op("Conv", x, maker.weights(values.reshape(CHANNELS, 15, 1, 1), 0.01))
    return maker, maker.requantized(y, 0.1, 0)


@pytest.mark.parametrize("kind", ["dense", "conv"])
@pytest.mark.parametrize("shape", [(CHANNELS,), (CHANNELS, 1), (1, 1, CHANNELS)])
def test_a_result_that_becomes_a_vector(
    kind: str, shape: tuple[int, ...], rng: np.random.Generator
) -> None:
    maker, y = projected(kind, rng)
    y = maker.op("Reshape", y, maker.constant(np.array(shape)))
    maker.op("Identity", maker.requantized(y, 0.1, 0), output="y")
    model = maker.model("y")
    graph = lower(model)
    assert str(split_projections(graph)) == str(graph)
    artifact = daedal.compile(model, "tiny", host=None)
    feeds = {"x": rng.normal(0, 1, graph.types["x"].shape)}
    assert daedal.check_layers(artifact, model, feeds).passed


def test_each_slice_becomes_a_convolution(rng: np.random.Generator) -> None:
    """Two whose values stay as they are, and one that is rescaled."""
    builder = GraphBuilder("projections")
    builder.input("x", TensorType((1, 16, 6, 1), "int8"))
    builder.constant("w", rng.integers(-128, 128, (24, 16, 1, 1)).astype(np.int8))
    biases = rng.integers(-999, 999, 24)
    builder.constant("p", np.stack([biases, np.full(24, 3), np.full(24, 9)], axis=1))
    builder.add("q_conv2d", ["x", "w", "p"], {**PIXELWISE, **UNCHANGED}, output="all")
    builder.constant("same", IDENTITY)
    builder.constant("half", np.array([[5, 1, 1]]))
    for number, (name, params) in enumerate((("q", "same"), ("k", "same"), ("v", "half"))):
        begins, ends = (0, 8 * number, 0, 0), (1, 8 * number + 8, 6, 1)
        attrs = {"begins": begins, "ends": ends, "steps": (1, 1, 1, 1), **UNCHANGED}
        builder.add("q_slice", ["all", params], attrs, output=name)
    builder.constant("factor", np.zeros(1, dtype=np.int8))
    builder.constant("scale", np.array([[0, 1, 9]]))
    zeros = {"zero_point_a": 0, "zero_point_b": 0}
    attrs = {**zeros, "columns": 6, **UNCHANGED}
    builder.add("q_matmul", ["q", "k", "factor", "scale"], attrs, output="s")
    graph = builder.finish(("s", "v"))
    split = split_projections(graph)
    verify(split)
    assert [(node.op, node.output) for node in split.nodes] == [
        ("q_conv2d", "q"),
        ("q_conv2d", "k"),
        ("q_conv2d", "v.part"),
        ("q_requantize", "v"),
        ("q_matmul", "s"),
    ]
    values = {"x": rng.integers(-128, 128, (1, 16, 6, 1)).astype(np.int8)}
    found, expected = run(split, values), run(graph, values)
    for name in graph.outputs:
        np.testing.assert_array_equal(found[name], expected[name])
        assert expected[name].std() > 10, name
