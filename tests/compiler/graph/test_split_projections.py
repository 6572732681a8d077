"""Projections whose results are read in other ways than by slices of channels stay whole."""

import numpy as np
import pytest

import daedal
from daedal.compiler.graph.passes import split_projections
from tests.compiler.graph.qdq_models import QdqModel, lower

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
