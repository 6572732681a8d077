"""A softmax written out in small operators becomes a softmax."""

import numpy as np
import pytest

from bench.qdq_model import QdqModel
from daedal.checking.integer_reference import run_onnxruntime
from daedal.compiler.frontend import load_onnx
from daedal.compiler.graph import Graph, run
from daedal.compiler.graph.passes import eliminate_dead_code

SHAPE = (2, 3, 6)


def imported(maker: QdqModel, rng: np.random.Generator) -> Graph:
    """The graph of a model with output ``y``, which computes what onnxruntime computes."""
    model = maker.model("y")
    graph = eliminate_dead_code(load_onnx(model.SerializeToString()))
    feeds = {"x": rng.normal(size=SHAPE).astype(np.float32)}
    wanted = run_onnxruntime(model, feeds)[0]
    np.testing.assert_allclose(run(graph, feeds)["y"], wanted, rtol=1e-5, atol=1e-6)
    return graph


def written(
    maker: QdqModel, *, most: int | None, total: int, keepdims: int = 1, division: str = "Div"
) -> None:
    """``y``, with the largest element along axis `most` subtracted, and the sum along `total`."""
    x = maker.input("x", SHAPE)
    if most is not None:
        x = maker.op("Sub", x, maker.op("ReduceMax", x, axes=[most], keepdims=1))
    powers = maker.op("Exp", x)
    axes = maker.constant(np.array([total]))
    sums = maker.op("ReduceSum", powers, axes, keepdims=keepdims)
    if division == "Div":
        maker.op("Div", powers, sums, output="y")
    else:
        maker.op("Mul", maker.op("Reciprocal", sums), powers, output="y")


@pytest.mark.parametrize("division", ["Div", "Reciprocal"])
@pytest.mark.parametrize("axis", [-1, 1])
@pytest.mark.parametrize("subtracts", [True, False])
def test_softmax(axis: int, division: str, subtracts: bool, rng: np.random.Generator) -> None:
    maker = QdqModel()
    written(maker, most=axis if subtracts else None, total=axis, division=division)
    (node,) = imported(maker, rng).nodes
    assert node.op == "softmax" and node.attrs["axes"] == (axis % 3,)


def test_the_largest_of_another_axis_stays(rng: np.random.Generator) -> None:
    maker = QdqModel()
    written(maker, most=1, total=2)
    ops = [node.op for node in imported(maker, rng).nodes]
    assert ops[-2:] == ["sub", "softmax"]


def test_sums_of_something_else_are_none(rng: np.random.Generator) -> None:
    maker = QdqModel()
    x = maker.input("x", SHAPE)
    sums = maker.op("ReduceSum", maker.op("Exp", x), maker.constant(np.array([2])))
    maker.op("Div", maker.op("Exp", maker.op("Neg", x)), sums, output="y")
    assert all(node.op != "softmax" for node in imported(maker, rng).nodes)
