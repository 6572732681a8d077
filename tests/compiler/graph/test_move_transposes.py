"""Transposes move, meet and cancel, and the pass ends: a step without progress is a warning."""

import numpy as np
import pytest

from bench.qdq_model import QdqModel
from daedal.compiler.graph import Graph, GraphBuilder, TensorType, run, verify
from daedal.compiler.graph.ops.integer import IDENTITY
from daedal.compiler.graph.passes import eliminate_dead_code, move_transposes
from daedal.compiler.graph.selection import PIXELWISE
from daedal.compiler.graph.views import is_in_order, source_of
from tests.compiler.graph.qdq_models import lower

SHAPE = (1, 4, 4, 4)


def chain(letters: str) -> Graph:
    """The lowered graph of operators, a letter each, between an input and an output."""
    maker = QdqModel()
    x = maker.requantized(maker.input("x", SHAPE), 1 / 32, 0)
    scale = 1 / 32
    for letter in letters:
        scale *= 1.25
        match letter:
            case "L":
                x = maker.op("Transpose", x, perm=[0, 2, 3, 1])
            case "F":
                x = maker.op("Transpose", x, perm=[0, 3, 1, 2])
            case "S":
                shape = maker.constant(np.array([1, 2, 2, 4, 4]))
                x = maker.op("Transpose", maker.op("Reshape", x, shape), perm=[0, 2, 1, 3, 4])
                x = maker.op("Reshape", x, maker.constant(np.array(SHAPE)))
            case "A":
                turned = maker.op("Transpose", x, perm=[0, 1, 3, 2])
                x = maker.op("Add", x, maker.requantized(turned, scale, 3))
            case "C":
                weights = np.random.default_rng(3).integers(-9, 10, (4, 4, 1, 1)).astype(np.int8)
                x = maker.op("Conv", x, maker.weights(weights, 1 / 16))
        x = maker.requantized(x, scale, 1)
    maker.op("Identity", x, output="y")
    return lower(maker.model("y"))


@pytest.mark.parametrize("last", ["RR", "RC", "AR", "LR", "SR"])
def test_chains_of_transposes_and_changes_of_scale_end(last: str, rng: np.random.Generator) -> None:
    feeds = {"x": rng.normal(size=SHAPE).astype(np.float32)}
    for begin in ("L", "SF", "AL", "RS"):
        graph = chain(begin + last)
        moved = move_transposes(graph)
        verify(moved)
        np.testing.assert_array_equal(run(moved, feeds)["y"], run(graph, feeds)["y"])
        again = move_transposes(moved)
        assert str(again) == str(eliminate_dead_code(moved))


def test_a_transposed_input_is_brought_into_the_order_of_its_readers_once() -> None:
    graph = move_transposes(chain("LRR"))
    turned = [node.op for node in graph.nodes]
    assert turned.count("transpose") == 1
    assert turned.count("q_requantize") == 3


@pytest.mark.parametrize("shape", [(1, 33), (3, 5)])
def test_rows_of_one_element_are_channels_already(
    shape: tuple[int, int], rng: np.random.Generator
) -> None:
    """A vector is a matrix of one column, which is the same turned: nothing is to be moved."""
    maker = QdqModel()
    x = maker.requantized(maker.input("x", shape), 1 / 32, 0)
    x = maker.requantized(maker.op("Concat", x, x, axis=1), 1 / 16, 0)
    x = maker.op("Pad", x, maker.constant(np.array([0, 0, 0, 2])))
    maker.op("Identity", maker.requantized(x, 1 / 16, 0), output="y")
    graph = lower(maker.model("y"))
    assert str(move_transposes(graph)) == str(eliminate_dead_code(graph))


def test_sums_of_what_the_host_gives_follow_the_layers(rng: np.random.Generator) -> None:
    """Layers read tokens as pixels; the sums of a residual stream between them do as well."""
    maker = QdqModel()
    shape = (1, 5, 8)
    given = [maker.requantized(maker.input(name, shape), 1 / 32, 0) for name in ("x", "z")]
    x = maker.requantized(maker.op("Add", *given), 1 / 16, 0)
    for _ in range(2):
        weights = rng.integers(-9, 10, (8, 8)).astype(np.int8)
        product = maker.op("MatMul", x, maker.weights(weights, 1 / 64, axis=1))
        x = maker.requantized(maker.op("Add", x, maker.requantized(product, 1 / 16, 0)), 1 / 8, 0)
    maker.op("Identity", x, output="y")
    graph = lower(maker.model("y"))
    moved = move_transposes(graph)
    feeds = {name: rng.normal(size=shape).astype(np.float32) for name in ("x", "z")}
    np.testing.assert_array_equal(run(moved, feeds)["y"], run(graph, feeds)["y"])
    integer = [node for node in moved.nodes if node.op in ("q_add", "q_conv2d")]
    assert len(integer) == 5
    for node in integer[1:]:
        assert is_in_order(source_of(moved, node.inputs[0])[1]())


@pytest.mark.parametrize("wide", [False, True])
def test_what_a_sum_turns_has_8_bits(wide: bool, rng: np.random.Generator) -> None:
    """Products turn no tensors of 16 bits."""
    shape = (1, 6, 4, 1)
    builder = GraphBuilder("sum")
    attrs = {"high": 127, "low": -128, "zero_point": 0}
    builder.input("a", TensorType(shape, "int8"))
    builder.input("b", TensorType((1, 4, 6, 1), "int8"))
    params = builder.constant("params", np.array([[0, 1 << 14, 14]], np.int64))
    limits = {"high": 2047, "low": -2048, "zero_point": 0} if wide else attrs
    for name, source, bounds in (("stream", "a", limits), ("tokens", "b", attrs)):
        channels = builder.types[source].shape[1]
        ones = np.eye(channels, dtype=np.int8)[..., None, None]
        operands = [source, builder.constant(f"{name}.weights", ones), f"{name}.params"]
        builder.constant(f"{name}.params", np.repeat(IDENTITY, channels, axis=0))
        builder.add("q_conv2d", operands, {**PIXELWISE, "pad_value": 0, **bounds}, output=name)
    builder.add("reshape", ["stream"], {"shape": shape[:3]}, output="rows")
    builder.add("transpose", ["rows"], {"order": (0, 2, 1)}, output="turned")
    builder.add("reshape", ["turned"], {"shape": (1, 4, 6, 1)}, output="map")
    sums = {**limits, "multiplier_a": 1, "multiplier_b": 1}
    builder.add("q_add", ["map", "tokens", params], sums, output="y")
    graph = builder.finish(("y",))
    moved = move_transposes(graph)
    verify(moved)
    (node,) = [item for item in moved.nodes if item.op == "q_add"]
    assert moved.types[node.output].shape == (shape if wide else (1, 4, 6, 1))
    values = {
        "a": rng.integers(-128, 128, shape).astype(np.int8),
        "b": rng.integers(-128, 128, (1, 4, 6, 1)).astype(np.int8),
    }
    np.testing.assert_array_equal(run(moved, values)["y"], run(graph, values)["y"])
