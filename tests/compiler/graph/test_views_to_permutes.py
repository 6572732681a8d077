"""Views that keep vectors of channels whole become permutations; all others stay."""

import numpy as np
import pytest

from daedal.compiler.graph.graph import Graph
from daedal.compiler.graph.ops.permute import vector_order
from daedal.compiler.graph.passes import views_to_permutes
from daedal.compiler.graph.selection import selected_channels
from daedal.compiler.graph.types import TensorType
from tests.compiler.graph.test_selections import Maps, check_same, ops

BLOCK = 16


def moved(
    rng: np.random.Generator,
    shape: tuple[int, int, int, int],
    split: tuple[int, ...],
    order: tuple[int, ...],
    target: tuple[int, int, int, int],
    *,
    to_host: bool = False,
) -> Graph:
    """A convolution, a reordering of its result, and another convolution."""
    maps = Maps(rng)
    builder = maps.builder
    first = builder.input("x", TensorType((shape[0], 4, *shape[2:]), "int8"))
    x = maps.conv(first, shape[1], "a")
    builder.add("reshape", [x], {"shape": split}, output="split")
    builder.add("transpose", ["split"], {"order": order}, output="turned")
    y = builder.add("reshape", ["turned"], {"shape": target}, output="y")
    return maps.finish(y if to_host else maps.conv(y, 8, "z"))


WINDOWS = ((1, 32, 8, 6), (32, 2, 4, 2, 3), (1, 3, 0, 2, 4), (4, 32, 4, 3))
TO_PIXELS = ((1, 64, 3, 5), (2, 2, 16, 3, 5), (2, 3, 0, 4, 1), (1, 16, 6, 10))


@pytest.mark.parametrize("case", [WINDOWS, TO_PIXELS], ids=["windows", "channels to pixels"])
def test_vectors_that_stay_whole_move(case, rng):
    graph = moved(rng, *case)
    changed = views_to_permutes(graph, block=BLOCK)
    assert ops(changed) == ["q_conv2d", "q_permute", "q_conv2d"]
    check_same(graph, changed, rng)


def test_channels_that_fill_no_block_may_keep_their_pixels(rng):
    """Five channels move with their pixel; lanes behind them hold anything."""
    graph = moved(rng, (1, 5, 4, 6), (5, 2, 2, 6), (0, 2, 1, 3), (1, 5, 4, 6))
    changed = views_to_permutes(graph, block=BLOCK)
    assert ops(changed) == ["q_conv2d", "q_permute", "q_conv2d"]
    check_same(graph, changed, rng)


def test_channels_in_another_order_are_selected_first(rng):
    """Four neighbouring channels become four pixels."""
    graph = moved(rng, (1, 64, 3, 5), (16, 2, 2, 3, 5), (0, 3, 1, 4, 2), (1, 16, 6, 10))
    changed = views_to_permutes(graph, block=BLOCK)
    assert ops(changed) == ["q_conv2d", "q_conv2d", "q_permute", "q_conv2d"]
    channels = selected_channels(changed, changed.nodes[1])
    assert channels is not None and list(channels[:3]) == [0, 4, 8] and channels[16] == 1
    check_same(graph, changed, rng)


STAYING = {
    "fewer channels than a block": ((1, 32, 3, 5), (8, 2, 2, 3, 5), (0, 3, 1, 4, 2), (1, 8, 6, 10)),
    "pixels become channels": ((1, 16, 4, 4), (16, 16), (1, 0), (1, 16, 4, 4)),
    "channels fill no block": ((1, 24, 3, 5), (2, 12, 3, 5), (1, 2, 0, 3), (1, 12, 6, 5)),
}


@pytest.mark.parametrize("name", STAYING)
def test_what_stays(name, rng):
    graph = moved(rng, *STAYING[name])
    assert ops(views_to_permutes(graph, block=BLOCK)) == ops(graph)


def test_pixels_in_an_order_of_no_nested_loops_stay(rng):
    """Two transposes, where one cannot do it."""
    maps = Maps(rng)
    builder = maps.builder
    x = maps.conv(builder.input("x", TensorType((1, 4, 2, 3), "int8")), 16, "a")
    for number in range(2):
        grid = builder.add("reshape", [x], {"shape": (16, 2, 3)}, output=f"grid{number}")
        x = builder.add("transpose", [grid], {"order": (0, 2, 1)}, output=f"turned{number}")
    y = builder.add("reshape", [x], {"shape": (1, 16, 2, 3)}, output="y")
    graph = maps.finish(maps.conv(y, 8, "z"))
    assert ops(views_to_permutes(graph, block=BLOCK)) == ops(graph)


def test_what_the_host_reads_stays(rng):
    graph = moved(rng, *WINDOWS, to_host=True)
    assert ops(views_to_permutes(graph, block=BLOCK)) == ops(graph)


def test_the_numbers_of_vectors():
    """Two images of two pixels, of two blocks: blocks become images."""
    attrs = {"split": (2, 2, 16, 2), "order": (1, 0, 2, 3), "shape": (4, 16, 2, 1)}
    found = vector_order((2, 32, 2, 1), attrs, BLOCK)
    assert found is not None and found.tolist() == [0, 1, 4, 5, 2, 3, 6, 7]
    lanes = {"split": (2, 16, 2, 2), "order": (0, 2, 1, 3), "shape": (2, 32, 2, 1)}
    assert vector_order((2, 32, 2, 1), lanes, BLOCK) is None
