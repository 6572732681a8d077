"""What is computed twice is computed once, where no name is lost that somebody needs."""

import numpy as np
import pytest

from daedal.compiler.graph import Graph, run_all, verify
from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.passes import eliminate_common_subexpressions
from daedal.compiler.graph.types import TensorType

FINISH = {"zero_point": 0, "low": -128, "high": 127}


def params(*numbers: int) -> np.ndarray:
    return np.array([numbers], dtype=np.int64)


def twice(other: np.ndarray, outputs=("sum",), host: bool = False) -> Graph:
    """Two requantizations of x, by constants of their own, and the sum of both."""
    builder = GraphBuilder("twice")
    x = builder.input("x", TensorType((1, 3, 4, 4), "int8"))
    first, second = builder.constant("p", params(5, 3, 2)), builder.constant("q", other)
    y = builder.add("q_requantize", [x, first], FINISH, output="y")
    z = builder.add("q_requantize", [x, second], FINISH, output="z")
    if host:
        builder.add("flip_sign", [z], output="flipped")
    one = builder.constant("one", params(0, 1, 1))
    factors = {"multiplier_a": 3, "multiplier_b": -2}
    builder.add("q_add", [y, z, one], {**factors, **FINISH}, output="sum")
    return builder.finish(outputs)


def same_values(before: Graph, after: Graph, rng: np.random.Generator) -> None:
    verify(after)
    inputs = {"x": rng.integers(-128, 128, (1, 3, 4, 4)).astype(np.int8)}
    expected, found = run_all(before, inputs), run_all(after, inputs)
    for name in before.outputs:
        np.testing.assert_array_equal(found[name], expected[name])


def test_equal_nodes_and_equal_constants_become_one(rng):
    graph = twice(params(5, 3, 2))
    found = eliminate_common_subexpressions(graph)
    assert [node.op for node in found.nodes] == ["q_requantize", "q_add"]
    assert found.nodes[1].inputs == ("y", "y", "one")
    assert set(found.constants) == {"p", "one"}
    same_values(graph, found, rng)


def test_other_numbers_stay(rng):
    graph = twice(params(5, 3, 3))
    found = eliminate_common_subexpressions(graph)
    assert [node.inputs for node in found.nodes] == [node.inputs for node in graph.nodes]
    assert set(found.constants) == {"p", "q", "one"}


def test_equal_bytes_of_another_type_stay():
    builder = GraphBuilder("types")
    x = builder.input("x", TensorType((1, 4), "float32"))
    row = builder.constant("row", np.zeros((1, 4), "float32"))
    square = builder.constant("square", np.zeros((1, 1, 2, 2), "float32"))
    builder.add("add", [x, row], output="y")
    builder.add("relu", [square], output="z")
    graph = builder.finish(["y", "z"])
    found = eliminate_common_subexpressions(graph)
    assert [node.inputs for node in found.nodes] == [("x", "row"), ("square",)]


def test_outputs_keep_their_names(rng):
    graph = twice(params(5, 3, 2), outputs=("z", "sum", "p"))
    found = eliminate_common_subexpressions(graph)
    assert found.outputs == graph.outputs
    assert [node.output for node in found.nodes] == ["y", "z", "sum"]
    same_values(graph, found, rng)


@pytest.mark.parametrize("output", ["p", "q"])
def test_a_constant_that_is_an_output_is_read_once_too(rng, output):
    """Whichever of two equal ones it is: it stays an output, and the nodes read the first."""
    graph = twice(params(5, 3, 2), outputs=("sum", output))
    found = eliminate_common_subexpressions(graph)
    assert found.nodes[1].inputs == ("y", "y", "one")
    assert set(found.constants) == {"p", "one", output}
    same_values(graph, found, rng)


def test_what_the_host_reads_keeps_its_name(rng):
    graph = twice(params(5, 3, 2), outputs=("flipped", "sum"), host=True)
    found = eliminate_common_subexpressions(graph)
    assert "z" in found.producers
    same_values(graph, found, rng)


def test_nodes_of_the_host_stay():
    builder = GraphBuilder("host")
    x = builder.input("x", TensorType((4,), "float32"))
    for name in "ab":
        builder.add("relu", [x], output=name)
    builder.add("add", ["a", "b"], output="c")
    graph = builder.finish(["c"])
    assert eliminate_common_subexpressions(graph).nodes == graph.nodes


def test_what_is_merged_makes_others_equal(rng):
    """Nodes that read equal nodes are equal themselves."""
    builder = GraphBuilder("chain")
    x = builder.input("x", TensorType((1, 3, 4, 4), "int8"))
    ends = []
    for branch in "ab":
        name = x
        for step in range(2):
            p = builder.constant(f"p{branch}{step}", params(step, 3, 2))
            name = builder.add("q_requantize", [name, p], FINISH, output=f"{branch}{step}")
        ends.append(name)
    one = builder.constant("one", params(0, 1, 1))
    attrs = {"zero_point_a": 1, "zero_point_b": 2, **FINISH}
    builder.add("q_mul", [*ends, one], attrs, output="product")
    graph = builder.finish(["product"])
    found = eliminate_common_subexpressions(graph)
    assert [node.output for node in found.nodes] == ["a0", "a1", "product"]
    same_values(graph, found, rng)
