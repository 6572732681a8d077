"""Images that a matrix product multiplies with the same rows become pixels. No value changes."""

import numpy as np
import pytest

from daedal.compiler.graph import Graph, GraphBuilder, TensorType, run, verify
from daedal.compiler.graph.ops.integer import IDENTITY, UNCHANGED
from daedal.compiler.graph.passes import join_images

BLOCK = 16


def product(
    a: tuple[int, ...], b: tuple[int, ...], columns: int = BLOCK, rows: int = 1
) -> tuple[Graph, dict[str, np.ndarray]]:
    """A product of two inputs, with parameters for each of so many rows, and values for them."""
    builder = GraphBuilder("product")
    operands = [
        builder.input("a", TensorType(a, "int8")),
        builder.input("b", TensorType(b, "int8")),
        builder.constant("factor", np.array([-2], dtype=np.int8)),
        builder.constant("params", np.repeat(IDENTITY + np.array([[0, 0, 9]]), rows, axis=0)),
    ]
    attrs = {"zero_point_a": 3, "zero_point_b": -4, "columns": columns, **UNCHANGED}
    builder.add("q_matmul", operands, attrs, output="y", name="product")
    rng = np.random.default_rng(7)
    values = {name: rng.integers(-128, 128, s).astype(np.int8) for name, s in (("a", a), ("b", b))}
    return builder.finish(("y",)), values


@pytest.mark.parametrize("images", [2, 5])
def test_heads_of_a_token_are_multiplied_together(images: int) -> None:
    graph, values = product((images, BLOCK, 1, 1), (1, BLOCK, BLOCK, 1))
    changed = join_images(graph, block=BLOCK)
    verify(changed)
    assert [node.op for node in changed.nodes] == [
        "images_to_pixels",
        "q_matmul",
        "pixels_to_images",
    ]
    (node,) = (node for node in changed.nodes if node.op == "q_matmul")
    assert changed.types[node.output].shape == (1, BLOCK, images, 1) and node.name == "product"
    expected = run(graph, values)["y"]
    np.testing.assert_array_equal(run(changed, values)["y"], expected)
    assert expected.std() > 10


@pytest.mark.parametrize(
    "given",
    [
        product((2, BLOCK, 1, 1), (2, BLOCK, BLOCK, 1)),
        product((1, BLOCK, 1, 1), (1, BLOCK, BLOCK, 1)),
        product((2, BLOCK, 3, 1), (1, BLOCK, BLOCK, 1), rows=6),
        product((2, 2 * BLOCK, 1, 1), (1, 2 * BLOCK, BLOCK, 1)),
        product((2, BLOCK, 1, 1), (1, BLOCK, 2 * BLOCK, 1), columns=2 * BLOCK),
    ],
    ids=["own rows", "one image", "pixels", "two blocks in", "two blocks out"],
)
def test_others_stay(given: tuple[Graph, dict[str, np.ndarray]]) -> None:
    graph, _ = given
    assert join_images(graph, block=BLOCK) is graph
