"""HardSwish without a table: at most one from onnxruntime at every value, or left to the host."""

import numpy as np
import onnx
import pytest

from bench.qdq_model import QdqModel
from daedal.checking.integer_reference import run_onnxruntime
from daedal.compiler.frontend import load_onnx
from daedal.compiler.graph import run
from daedal.compiler.pipeline import compile_graph
from daedal.isa.variant import load_variant
from tests.compiler.graph.qdq_models import lower
from tests.support.networks import check_compiled


def hard_swish(x: tuple[float, int], y: tuple[float, int]) -> onnx.ModelProto:
    """Over all values, with these scales and zero points."""
    maker = QdqModel(14)
    values = maker.dequantize(maker.input("x", (1, 4, 8, 8), "int8"), *x)
    maker.quantize(maker.op("HardSwish", values), *y, output="y")
    return maker.model("y", dtype="int8")


EVERY_VALUE = np.arange(-128, 128).astype(np.int8).reshape(1, 4, 8, 8)


def test_every_value_of_random_scales(rng: np.random.Generator) -> None:
    """Of ranges as activations have them: nearly all without a table."""
    num_products = 0
    for _ in range(60):
        low, high = -rng.uniform(0.5, 10), rng.uniform(0.5, 20)
        scale = (high - low) / 255
        result = (high + 0.375) / 255
        zero_points = (round(-128 - low / scale), round(-128 + 0.375 / result))
        model = hard_swish((scale, zero_points[0]), (result, zero_points[1]))
        graph = lower(model)
        num_products += graph.nodes[-1].op == "q_mul"
        (expected,) = run_onnxruntime(model, {"x": EVERY_VALUE})
        found = run(graph, {"x": EVERY_VALUE})["y"]
        difference = np.abs(found.astype(int) - expected.astype(int)).max()
        assert difference <= 1, f"{low} to {high}: {difference} apart"
    assert num_products >= 50


@pytest.mark.parametrize(
    ("x", "y"),
    [((0.05, 0), (0.0005, 0)), ((1e-9, 0), (1e-9, 0))],
    ids=["fine result", "tiny values"],
)
def test_the_host_where_8_bits_are_too_few(x: tuple[float, int], y: tuple[float, int]) -> None:
    model = hard_swish(x, y)
    graph = lower(model)
    found = run(graph, {"x": EVERY_VALUE})["y"]
    (expected,) = run_onnxruntime(model, {"x": EVERY_VALUE})
    assert np.abs(found.astype(int) - expected.astype(int)).max() <= 1
    assert [node.op for node in graph.nodes] == ["dequantize", "onnx", "quantize"]


def test_other_operators_of_onnx_are_the_hosts() -> None:
    """Those that the graph has no operator for come to the same rule."""
    maker = QdqModel(18)
    values = maker.dequantize(maker.input("x", (1, 4, 8, 8), "int8"), 0.06, 10)
    maker.quantize(maker.op("Mish", values), 0.03, -115, output="y")
    model = maker.model("y", dtype="int8")
    graph = lower(model)
    assert [node.op for node in graph.nodes] == ["dequantize", "onnx", "quantize"]
    (expected,) = run_onnxruntime(model, {"x": EVERY_VALUE})
    found = run(graph, {"x": EVERY_VALUE})["y"]
    assert np.abs(found.astype(int) - expected.astype(int)).max() <= 1


def test_on_the_machine(rng: np.random.Generator) -> None:
    model = hard_swish((0.06, 10), (0.03, -115))
    compiled = compile_graph(load_onnx(model.SerializeToString()), load_variant("vta"))
    assert [layer.op for layer in compiled.launch.layers] == ["q_leaky_relu", "q_mul"]
    check_compiled(compiled, rng)
