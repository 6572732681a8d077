"""Parts of tensors through views: the elements that a part of a view has."""

import math

import numpy as np
import pytest

from daedal.compiler.graph import GraphBuilder, TensorType
from daedal.compiler.graph.boxes import box_shape, box_size, joined, operand_boxes, whole_box
from daedal.isa.tensor import Box


def taken(array: np.ndarray, box: Box) -> np.ndarray:
    return array[tuple(slice(*axis) for axis in box)]


def drawn_shape(rng: np.random.Generator, size: int) -> tuple[int, ...]:
    """A shape of so many elements."""
    shape = [1] * int(rng.integers(1, 5))
    while size > 1:
        factor = next(k for k in (2, 3, 5, 7) if size % k == 0)
        shape[int(rng.integers(len(shape)))] *= factor
        size //= factor
    return tuple(shape)


def drawn_box(rng: np.random.Generator, shape: tuple[int, ...]) -> Box:
    """A box that is smaller along one axis or two."""
    box = list(whole_box(shape))
    for axis in rng.integers(len(shape), size=int(rng.integers(1, 3))):
        begin = int(rng.integers(shape[axis]))
        box[axis] = begin, int(rng.integers(begin, shape[axis])) + 1
    return tuple(box)


def test_through_views(rng: np.random.Generator) -> None:
    exact = views = 0
    for _ in range(2000):
        source = drawn_shape(rng, int(rng.choice([12, 24, 30, 60, 64])))
        builder = GraphBuilder("view")
        builder.input("x", TensorType(source, "int8"))
        values = np.arange(math.prod(source)).reshape(source)
        if rng.random() < 0.5:
            shape = drawn_shape(rng, values.size)
            builder.add("reshape", ["x"], {"shape": shape}, output="y")
            result = values.reshape(shape)
        else:
            order = tuple(int(axis) for axis in rng.permutation(len(source)))
            builder.add("transpose", ["x"], {"order": order}, output="y")
            result = values.transpose(order)
        graph = builder.finish(["y"])
        box = drawn_box(rng, result.shape)
        computed, operands = operand_boxes(graph, graph.nodes[0], box)
        if computed == box:
            part = taken(values, operands["x"])
            if graph.nodes[0].op == "reshape":
                part = part.reshape(box_shape(box))
            else:
                part = part.transpose(order)
            np.testing.assert_array_equal(part, taken(result, box))
            exact += 1
        else:
            assert computed == whole_box(result.shape)
            assert operands["x"] == whole_box(source)
        views += 1
    assert views > exact > views / 2


@pytest.mark.parametrize(
    ("source", "target", "box", "before"),
    [
        # One token of a matrix, its heads, and a token of the second image.
        ((50, 64), (1, 50, 64), ((0, 1), (3, 5), (0, 64)), ((3, 5), (0, 64))),
        ((1, 50, 64), (1, 50, 4, 16), ((0, 1), (7, 8), (0, 4), (0, 16)), None),
        ((2, 50, 64), (100, 64), ((53, 54), (0, 64)), ((1, 2), (3, 4), (0, 64))),
        # Elements that are no box there.
        ((6, 4), (8, 3), ((1, 2), (0, 3)), "none"),
        ((2, 50, 64), (100, 64), ((49, 51), (0, 64)), "none"),
        ((4, 6), (2, 2, 6), ((0, 2), (0, 1), (0, 6)), "none"),
    ],
)
def test_a_reshape(source, target, box, before) -> None:
    builder = GraphBuilder("view")
    builder.input("x", TensorType(source, "int8"))
    builder.add("reshape", ["x"], {"shape": target}, output="y")
    graph = builder.finish(["y"])
    computed, operands = operand_boxes(graph, graph.nodes[0], box)
    if before == "none":
        assert (computed, operands["x"]) == (whole_box(target), whole_box(source))
    else:
        assert computed == box
        assert operands["x"] == (before or ((0, 1), (7, 8), (0, 64)))


def test_of_boxes() -> None:
    box = joined(((0, 1), (3, 5)), ((0, 1), (7, 9)))
    assert box == ((0, 1), (3, 9))
    assert (box_shape(box), box_size(box)) == ((1, 6), 6)
