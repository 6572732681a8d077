"""Graphs as text: what is printed is read back, and a pass is tested on what it says of itself."""

import numpy as np
import pytest

from bench.qdq_model import QdqModel
from daedal.common.errors import ModelError
from daedal.compiler.frontend import load_onnx
from daedal.compiler.graph import run
from daedal.compiler.graph.graph import Graph
from daedal.compiler.graph.parser import parse_graph
from daedal.compiler.graph.passes import (
    eliminate_dead_code,
    simplify_reshapes,
    simplify_transposes,
)
from daedal.compiler.graph.printer import print_graph
from daedal.compiler.pipeline import lowering_passes
from daedal.isa.variant import load_variant

TWICE = """
graph twice {
  input x: float32[2,3,4]
  a: float32[4,2,3] = transpose(x) order=2,0,1
  b: float32[2,3,4] = transpose(a) order=1,2,0
  y: float32[2,3,4] = relu(b)  # last
  output y
}
"""


def imported(rng: np.random.Generator) -> Graph:
    maker = QdqModel()
    x = maker.requantized(maker.input("x", (1, 3, 6, 6)), 0.05, -3)
    w = maker.weights(rng.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8), 0.01)
    y = maker.requantized(maker.op("Relu", maker.op("Conv", x, w, pads=[1] * 4)), 0.05, 0)
    y = maker.op("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2])
    return load_onnx(maker.model(maker.op("Softmax", y)).SerializeToString())


def test_what_is_printed_is_read_back(rng: np.random.Generator) -> None:
    graph = imported(rng)
    for _, run_pass in (("imported", lambda same: same), *lowering_passes(load_variant("vta"))):
        graph = run_pass(graph)
        text = print_graph(graph)
        again = parse_graph(text, graph.constants)
        assert print_graph(again) == text
    inputs = {"x": rng.normal(size=(1, 3, 6, 6)).astype(np.float32)}
    (expected,), (found,) = (tuple(run(item, inputs).values()) for item in (graph, again))
    np.testing.assert_array_equal(found, expected)


def test_two_transposes_cancel() -> None:
    graph = parse_graph(TWICE)
    for run_pass in (simplify_transposes, simplify_reshapes, eliminate_dead_code):
        graph = run_pass(graph)
    text = print_graph(graph)
    assert "transpose" not in text
    assert "y: float32[2,3,4] = relu(x)  # last" in text


def test_constants_are_drawn_where_the_text_asks_for_it(rng: np.random.Generator) -> None:
    graph = parse_graph(
        """
        graph drawn {
          input x: float32[2,3]
          const w: float32[2,3] = ?
          const half: float32[] = 0.5
          a: float32[2,3] = mul(x, w)
          y: float32[2,3] = add(a, half)
          output y
        }
        """,
        rng=rng,
    )
    x = rng.normal(size=(2, 3)).astype(np.float32)
    expected = x * graph.constant("w") + np.float32(0.5)
    assert np.ptp(graph.constant("w")) > 0
    np.testing.assert_array_equal(run(graph, {"x": x})["y"], expected)


def test_layouts_are_read(rng: np.random.Generator) -> None:
    text = "graph g {\n  input x: int8[1,16,4,4]:NCHW1n16c\n  const w: KIND = ?\n  output w\n}\n"
    kind = "int8[20,4,3,3]:OIHW16o16i"
    graph = parse_graph(text.replace("KIND", kind), rng=rng)
    assert str(graph.types["x"]) == "int8[1,16,4,4]:NCHW1n16c"
    assert graph.constant("w").shape == graph.types["w"].physical_shape == (2, 1, 3, 3, 16, 16)
    with pytest.raises(ModelError, match="text does not say enough of layout CHW9t16c"):
        parse_graph(text.replace("KIND", "int8[16,1,3,3]:CHW9t16c"), rng=rng)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("graph twice {", "twice"), "must begin with 'graph NAME {'"),
        (("relu(b)", "relo(b)"), "line 6 of a graph is wrong: there is no operator 'relo'"),
        (("a: float32[4,2,3]", "a: float32[4,3,2]"), "line 4 .*: 'a' is float32"),
        (("order=2,0,1", "order=2,0,x"), "line 4 of a graph is wrong: invalid literal"),
        (("order=2,0,1", "turn=2"), "transpose has no attribute 'turn'"),
        (("output y", "exit y"), "it is no input, constant, node or output"),
        (("output y", "const k: int8[8] = crc32:00000000"), "'k' is a checksum, and its value"),
        (("output y", "const k: int8[8] = ?"), "no generator draws 'k'"),
    ],
)
def test_wrong_text_is_refused(change: tuple[str, str], reason: str) -> None:
    with pytest.raises(ModelError, match=reason):
        parse_graph(TWICE.replace(*change))
