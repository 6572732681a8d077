"""A projection that a matrix product reads with its pixels as channels is computed turned."""

import numpy as np
import pytest

from daedal.compiler.graph import GraphBuilder, TensorType, run, verify
from daedal.compiler.graph.graph import Graph
from daedal.compiler.graph.ops.integer import UNCHANGED
from daedal.compiler.graph.passes import eliminate_dead_code, turn_projections
from daedal.compiler.graph.selection import PIXELWISE

HEADS, TOKENS, WIDTH, CHANNELS = 4, 6, 3, 8
"""Of the projection, and channels of the map that it projects."""


def mixed_values(products: int, order: tuple[int, ...], rng: np.random.Generator) -> Graph:
    """Products of probabilities with the values of one projection."""
    builder = GraphBuilder("mixed")
    builder.input("x", TensorType((1, CHANNELS, TOKENS, 1), "int8"))
    count = HEADS * WIDTH
    weights = rng.integers(-128, 128, (count, CHANNELS, 1, 1)).astype(np.int8)
    builder.constant("w", weights)
    rows = [rng.integers(-999, 999, count), rng.integers(1, 9, count), np.full(count, 9)]
    builder.constant("p", np.stack(rows, axis=1))
    builder.add("q_conv2d", ["x", "w", "p"], {**PIXELWISE, **UNCHANGED}, output="v")
    builder.add("reshape", ["v"], {"shape": (HEADS, WIDTH, TOKENS)}, output="heads")
    builder.add("transpose", ["heads"], {"order": order}, output="turned")
    builder.add("reshape", ["turned"], {"shape": (HEADS, TOKENS, WIDTH, 1)}, output="t")
    builder.constant("f", np.zeros(1, dtype=np.int8))
    builder.constant("q", np.array([[7, 1, 8]]))
    zeros = {"zero_point_a": 0, "zero_point_b": 0}
    names = []
    for number in range(products):
        a = builder.input(f"a{number}", TensorType((HEADS, TOKENS, 5, 1), "int8"))
        attrs = {**zeros, "columns": WIDTH, **UNCHANGED}
        names.append(builder.add("q_matmul", [a, "t", "f", "q"], attrs, output=f"y{number}"))
    return builder.finish(tuple(names))


def test_the_operands_of_the_convolution_change_places(rng: np.random.Generator) -> None:
    """Once for both products that read the result, whose pixels fill a block."""
    graph = mixed_values(2, (0, 2, 1), rng)
    turned = eliminate_dead_code(turn_projections(graph, block=4))
    verify(turned)
    assert [(node.op, node.inputs[:2]) for node in turned.nodes] == [
        ("q_matmul", ("w.turned", "x")),
        ("q_matmul", ("a0", "t.turned")),
        ("q_matmul", ("a1", "t.turned")),
    ]
    assert turned.types["t.turned"].shape == (HEADS, TOKENS, 4, 1)
    kinds = {name: graph.types[name].shape for name in graph.inputs}
    values = {name: rng.integers(-128, 128, kind).astype(np.int8) for name, kind in kinds.items()}
    found, expected = run(turned, values), run(graph, values)
    for name in graph.outputs:
        np.testing.assert_array_equal(found[name], expected[name])
        assert expected[name].std() > 10, name


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0)])
def test_other_orders_stay(order: tuple[int, ...], rng: np.random.Generator) -> None:
    graph = mixed_values(1, order, rng)
    assert turn_projections(graph, block=4).nodes == graph.nodes
