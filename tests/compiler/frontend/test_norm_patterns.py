"""Norms written out in small operators become layer norms and RMS norms."""

import numpy as np
import pytest

from bench.qdq_model import QdqModel
from daedal.checking.integer_reference import run_onnxruntime
from daedal.compiler.frontend import load_onnx
from daedal.compiler.graph import Graph, run
from daedal.compiler.graph.passes import eliminate_dead_code

SHAPE = (2, 3, 6)


class _Writer(QdqModel):
    """Writes norms in small operators."""

    def number(self, value: float) -> str:
        return self.constant(np.float32(value))

    def vector(self, rng: np.random.Generator, *shape: int) -> str:
        return self.constant(rng.normal(size=shape or SHAPE[-1:]).astype(np.float32))

    def centered(self, x: str, axis: int = -1) -> str:
        return self.op("Sub", x, self.op("ReduceMean", x, axes=[axis]))

    def root(self, d: str, square: str = "Mul", axis: int = -1, epsilon: float = 0.01) -> str:
        squares = self.op("Mul", d, d) if square == "Mul" else self.op("Pow", d, self.number(2))
        mean = self.op("ReduceMean", squares, axes=[axis])
        return self.op("Sqrt", self.op("Add", self.number(epsilon), mean))

    def quotient(self, d: str, root: str, division: str = "Div") -> str:
        if division == "Div":
            return self.op("Div", d, root)
        if division == "Reciprocal":
            return self.op("Mul", self.op("Reciprocal", root), d)
        return self.op("Mul", d, self.op("Div", self.number(1), root))


def imported(maker: QdqModel, rng: np.random.Generator) -> Graph:
    """The graph of a model with output ``y``, which computes what onnxruntime computes."""
    model = maker.model("y")
    graph = eliminate_dead_code(load_onnx(model.SerializeToString()))
    inputs = {
        name: rng.normal(size=graph.types[name].shape).astype(np.float32) for name in graph.inputs
    }
    expected = run_onnxruntime(model, inputs)[0]
    np.testing.assert_allclose(run(graph, inputs)["y"], expected, rtol=1e-4, atol=1e-5)
    return graph


@pytest.mark.parametrize("division", ["Div", "Reciprocal", "inverse"])
@pytest.mark.parametrize("square", ["Mul", "Pow"])
def test_rms_norm(square: str, division: str, rng: np.random.Generator) -> None:
    net = _Writer()
    x = net.input("x", SHAPE)
    y = net.quotient(x, net.root(x, square), division)
    net.op("Mul", net.vector(rng), y, output="y")
    (node,) = imported(net, rng).nodes
    assert node.op == "rms_norm" and node.attrs["epsilon"] == pytest.approx(0.01)


@pytest.mark.parametrize("parts", ["", "scale", "scale and bias"])
def test_layer_norm(parts: str, rng: np.random.Generator) -> None:
    net = _Writer()
    d = net.centered(net.input("x", SHAPE), 2)
    y = net.quotient(d, net.root(d, "Pow", 2))
    if parts:
        y = net.op("Mul", y, net.vector(rng, 1, 1, SHAPE[-1]))
    if parts == "scale and bias":
        y = net.op("Add", y, net.vector(rng))
    net.nodes[-1].output[0] = "y"
    (node,) = imported(net, rng).nodes
    assert node.op == "layer_norm" and len(node.inputs) == 2 + (parts == "scale and bias")


@pytest.mark.parametrize("bound", ["", "Clip", "Max", "Add"])
@pytest.mark.parametrize("expanded", [True, False])
def test_rows_over_their_lengths(bound: str, expanded: bool, rng: np.random.Generator) -> None:
    net = _Writer(opset=13)
    x = net.input("x", SHAPE)
    length = net.op("ReduceL2", x, axes=[-1])
    if bound:
        length = net.op(bound, length, net.number(1e-12))
    if expanded:
        length = net.op("Expand", length, net.constant(np.array(SHAPE)))
    net.op("Mul", net.vector(rng), net.op("Div", x, length), output="y")
    (node,) = imported(net, rng).nodes
    assert node.op == "rms_norm"


def test_other_lengths_stay(rng: np.random.Generator) -> None:
    net = _Writer(opset=13)
    x = net.input("x", SHAPE)
    length = net.op("ReduceL2", x, axes=[-1])
    coarse = net.op("Div", x, net.op("Clip", length, net.number(1e-6)))
    bounded = net.op("Div", x, net.op("Clip", length, net.number(0), net.number(3)))
    along = net.op("Div", x, net.op("ReduceL2", x, axes=[1]))
    net.op("Sum", coarse, bounded, along, output="y")
    assert "rms_norm" not in [node.op for node in imported(net, rng).nodes]


def test_what_is_no_norm_over_the_last_axis_stays(rng: np.random.Generator) -> None:
    net = _Writer()
    x = net.input("x", SHAPE)
    along = net.quotient(x, net.root(x, axis=1))
    other = net.quotient(net.op("Relu", x), net.root(x))
    scaled = net.op("Mul", net.quotient(x, net.root(x)), net.vector(rng, SHAPE[1], 1))
    net.op("Sum", along, other, scaled, output="y")
    ops = [node.op for node in imported(net, rng).nodes]
    # Only the norm below the product with a number for each row is one.
    assert ops.count("rms_norm") == 1 and "layer_norm" not in ops
    assert ops.count("mul") >= 3
