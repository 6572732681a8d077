"""Operators on tensors with channels last, as TensorFlow's exporter writes: no transpose stays.

That exporter transposes around each convolution and leaves all else with the channels last.
"""

from collections.abc import Callable

import numpy as np
import pytest

from bench.qdq_model import QdqModel
from daedal.checking.integer_reference import run_onnxruntime
from daedal.compiler.graph import Graph, run
from daedal.compiler.graph.passes import (
    eliminate_dead_code,
    move_transposes,
    simplify_reshapes,
    simplify_transposes,
)
from tests.compiler.graph.qdq_models import lower

FIRST, LAST = [0, 3, 1, 2], [0, 2, 3, 1]

Operator = Callable[[QdqModel, str], str]


def concat(axis: int) -> Operator:
    return lambda maker, x: maker.op("Concat", x, conv(maker, x), axis=axis)


def pad(maker: QdqModel, x: str) -> str:
    return maker.op("Pad", x, maker.constant(np.array([0, 1, 0, 2, 0, 0, 3, 1])))


def cut(maker: QdqModel, x: str) -> str:
    return maker.op("Slice", x, *(maker.constant(np.array(v)) for v in ([1, 0], [4, 3], [1, 2])))


def resize(maker: QdqModel, x: str) -> str:
    factors = maker.constant(np.array([1, 2, 3, 1], np.float32))
    modes = {"nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}
    return maker.op("Resize", x, "", factors, mode="nearest", **modes)


def conv(maker: QdqModel, x: str) -> str:
    """A convolution of four channels, with those last on both sides."""
    weights = np.random.default_rng(4).integers(-30, 30, (4, 4, 1, 1)).astype(np.int8)
    x = maker.op("Conv", maker.op("Transpose", x, perm=FIRST), maker.weights(weights, 0.02))
    x = maker.requantized(x, 0.1, 0)
    return maker.requantized(maker.op("Transpose", x, perm=LAST), 0.1, 0)


OPERATORS: dict[str, Operator] = {
    **{f"concat along axis {axis}": concat(axis) for axis in (1, 2, 3)},
    "pad": pad,
    "slice": cut,
    "resize": resize,
}


def network(names: list[str], computed: bool) -> tuple[Graph, float]:
    """The graph of these operators between convolutions, and the error of its result.

    Without `computed`, the first operator reads the input.
    """
    maker = QdqModel()
    x = maker.requantized(maker.input("x", (1, 4, 4, 4)), 0.1, 0)
    x = conv(maker, x) if computed else x
    for name in names:
        x = maker.requantized(OPERATORS[name](maker, x), 0.1, 0)
    x = maker.op("MaxPool", maker.op("Transpose", x, perm=FIRST), kernel_shape=[2, 2])
    model = maker.model(maker.requantized(x, 0.1, 0))
    graph = lower(model)
    feeds = {"x": np.random.default_rng(3).normal(size=(1, 4, 4, 4)).astype(np.float32)}
    (found,) = run(graph, feeds).values()
    graph = move_transposes(simplify_transposes(simplify_reshapes(eliminate_dead_code(graph))))
    graph = eliminate_dead_code(simplify_reshapes(simplify_transposes(graph)))
    np.testing.assert_array_equal(*run(graph, feeds).values(), found)
    return graph, float(np.abs(found - run_onnxruntime(model, feeds)[0]).max())


def turned(graph: Graph) -> int:
    """Transposes that the host does not do before it gives an input."""
    return sum(
        node.op == "transpose" and graph.producers[node.inputs[0]].op.startswith("q_")
        for node in graph.nodes
        if node.inputs[0] in graph.producers
    )


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("computed", [True, False])
def test_an_operator_on_channels_last_works_on_maps(name: str, computed: bool) -> None:
    graph, error = network([name], computed)
    assert turned(graph) == 0
    assert error <= 0.1001


@pytest.mark.parametrize("computed", [True, False])
def test_operators_on_channels_last_that_follow_each_other(computed: bool) -> None:
    names = ["resize", "slice", "pad"]
    if computed:
        names.insert(0, "concat along axis 3")
    graph, error = network(names, computed)
    assert turned(graph) == 0
    assert error <= 0.1001
