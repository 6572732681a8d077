"""Biases that are floats: they are rounded to the scale of the products, or the layer stays one of
the host's."""

import numpy as np
import pytest

import daedal
from bench.qdq_model import QdqModel
from daedal.checking.integer_reference import compare_operators, processor_graph
from daedal.common.errors import UnsupportedError

VARIANT = daedal.load_variant("attention")
INPUT, WEIGHT = 1.0, 1 / 64


def layer(kind: str, scale: float, dtype: str = "int8", bias: float = 0.4) -> QdqModel:
    """A convolution or product with a bias of some steps of the products and a part of one."""
    maker = QdqModel()
    values = np.random.default_rng(2).integers(-9, 10, (8, 4)).astype(np.int8)
    parts = ((np.arange(8) + bias) * INPUT * WEIGHT).astype(np.float32)
    if kind == "conv":
        x = maker.requantized(maker.input("x", (1, 4, 3, 3)), INPUT, 0)
        weight = maker.weights(values.reshape(8, 4, 1, 1), WEIGHT)
        y = maker.op("Conv", x, weight, maker.constant(parts))
    else:
        x = maker.requantized(maker.input("x", (9, 4)), INPUT, 0)
        y = maker.op("MatMul", x, maker.weights(values.T.copy(), WEIGHT))
        y = maker.op("Add", y, maker.constant(parts))
    maker.op("Identity", maker.requantized(y, scale, 0, dtype, "y_q"), output="y")
    return maker


@pytest.mark.parametrize("kind", ["conv", "matmul"])
@pytest.mark.parametrize(
    ("scale", "bias"), [(1 / 64, 0.49), (1 / 32, 0.5), (1 / 77, 0.4), (1 / 640, 0.0)]
)
def test_results_are_within_one(
    kind: str, scale: float, bias: float, rng: np.random.Generator
) -> None:
    model = layer(kind, scale, bias=bias).model("y")
    graph = processor_graph(model, VARIANT)
    shape = graph.types["x"].shape
    found = compare_operators(model, graph, {"x": rng.normal(0, 1, shape).astype(np.float32)})
    assert found and max(item.largest for item in found) <= 1


@pytest.mark.parametrize("kind", ["conv", "matmul"])
def test_a_bias_much_finer_than_the_products_is_the_hosts(kind: str) -> None:
    """A step of the products is ten units of the result; rounded, the bias would be off by 4."""
    model = layer(kind, 1 / 640).model("y")
    with pytest.raises(UnsupportedError, match="not off by 4 units of the result"):
        daedal.compile(model, VARIANT)


@pytest.mark.parametrize("scale", [1 / 640, 1 / 8192])
def test_results_of_16_bits_have_finer_units(scale: float) -> None:
    """The same bias of a residual stream is off by a small part of what 8 bits would have."""
    graph = processor_graph(layer("matmul", scale, "int16").model("y"), VARIANT)
    assert "q_conv2d" in [node.op for node in graph.nodes]
