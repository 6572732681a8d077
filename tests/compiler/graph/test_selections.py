"""Channels that change places: as selections, and folded into convolutions. No value changes."""

import numpy as np
import pytest

from daedal.compiler.graph import Graph, run, verify
from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import AttrValue
from daedal.compiler.graph.ops.integer import IDENTITY
from daedal.compiler.graph.passes import (
    align_channels,
    eliminate_dead_code,
    fold_selections,
    shuffles_to_selections,
)
from daedal.compiler.graph.selection import add_selection, selected_channels
from daedal.compiler.graph.types import TensorType

BLOCK = 16


class Maps:
    """Builds graphs of int8 maps."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.builder = GraphBuilder("maps")

    def input(self, channels: int, name: str = "x") -> str:
        return self.builder.input(name, TensorType((1, channels, 5, 4), "int8"))

    def conv(
        self, x: str, outputs: int, output: str, groups: int = 1, pad: int = 0, kernel: int = 1
    ) -> str:
        shape = (outputs, self.builder.types[x].shape[1] // groups, kernel, kernel)
        weights = self.rng.integers(-128, 128, shape).astype(np.int8)
        multipliers = self.rng.integers(1 << 14, 1 << 15, outputs)
        biases = self.rng.integers(-9999, 9999, outputs)
        params = np.stack([biases, multipliers, np.full(outputs, 22)], axis=1)
        attrs: dict[str, AttrValue] = {
            "strides": (1, 1),
            "pads": (pad, pad, pad, pad),
            "dilations": (1, 1),
            "groups": groups,
            "pad_value": -7,
            "zero_point": 3,
            "low": -100,
            "high": 90,
        }
        operands = [
            x,
            *(self.builder.constant(f"{output}.{i}", v) for i, v in enumerate((weights, params))),
        ]
        return self.builder.add("q_conv2d", operands, attrs, output=output)

    def shuffle(self, x: str, groups: int, output: str) -> str:
        images, channels, *extents = self.builder.types[x].shape
        parts = {"shape": (images, groups, channels // groups, *extents)}
        split = self.builder.add("reshape", [x], parts, output=f"{output}.split")
        turned = self.builder.add(
            "transpose", [split], {"order": (0, 2, 1, 3, 4)}, output=f"{output}.turned"
        )
        whole = {"shape": (images, channels, *extents)}
        return self.builder.add("reshape", [turned], whole, output=output)

    def select(self, x: str, channels: list[int], output: str) -> str:
        return add_selection(self.builder, x, np.array(channels), output, output)

    def finish(self, *outputs: str) -> Graph:
        return self.builder.finish(outputs)


def check_same(graph: Graph, changed: Graph, rng: np.random.Generator) -> None:
    verify(changed)
    shapes = {name: graph.types[name].shape for name in graph.inputs}
    values = {
        name: rng.integers(-128, 128, shape).astype(np.int8) for name, shape in shapes.items()
    }
    found = run(changed, values)
    for name, expected in run(graph, values).items():
        np.testing.assert_array_equal(found[name], expected, err_msg=name)
        assert expected.std() > 10, name


def folded(graph: Graph) -> Graph:
    return eliminate_dead_code(fold_selections(graph, block_in=BLOCK, block_out=BLOCK))


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def test_a_shuffle_becomes_a_selection(rng: np.random.Generator) -> None:
    maps = Maps(rng)
    x = maps.conv(maps.input(6), 24, "a")
    graph = maps.finish(maps.conv(maps.shuffle(x, 4, "s"), 8, "y"))
    changed = shuffles_to_selections(graph)
    assert ops(changed) == ["q_conv2d"] * 3
    channels = selected_channels(changed, changed.producers["s"])
    assert channels is not None and list(channels[:6]) == [0, 6, 12, 18, 1, 7]
    check_same(graph, changed, rng)


@pytest.mark.parametrize("order", [(0, 2, 1, 4, 3), (0, 2, 1, 3, 4)], ids=["pixels too", "border"])
def test_other_moves_stay(order: tuple[int, ...], rng: np.random.Generator) -> None:
    """Rows and columns that change places, and shuffles that the host reads."""
    maps = Maps(rng)
    builder = maps.builder
    x = maps.conv(maps.input(6), 8, "a")
    split = builder.add("reshape", [x], {"shape": (1, 2, 4, 5, 4)}, output="split")
    turned = builder.add("transpose", [split], {"order": order}, output="turned")
    rows, columns = builder.types[turned].shape[3:]
    y = builder.add("reshape", [turned], {"shape": (1, 8, rows, columns)}, output="y")
    if rows != 5:
        y = maps.conv(y, 4, "z")
    graph = maps.finish(y)
    assert ops(shuffles_to_selections(graph)) == ops(graph)


@pytest.mark.parametrize("order", [(0, 2, 1, 4, 3), (0, 2, 1, 3, 4)], ids=["turned", "in order"])
def test_pixels_of_a_square_map_keep_their_places(
    order: tuple[int, ...], rng: np.random.Generator
) -> None:
    """Turned pixels change no shape, and the first pixel's channels are those of a shuffle."""
    maps = Maps(rng)
    builder = maps.builder
    x = maps.conv(builder.input("x", TensorType((1, 6, 5, 5), "int8")), 8, "a")
    split = builder.add("reshape", [x], {"shape": (1, 2, 4, 5, 5)}, output="split")
    turned = builder.add("transpose", [split], {"order": order}, output="turned")
    y = builder.add("reshape", [turned], {"shape": (1, 8, 5, 5)}, output="y")
    graph = maps.finish(maps.conv(y, 4, "z"))
    changed = shuffles_to_selections(graph)
    assert (ops(changed) == ops(graph)) == (order[-1] == 3)
    check_same(graph, changed, rng)


def test_images_that_change_places_with_channels_stay(rng: np.random.Generator) -> None:
    maps = Maps(rng)
    builder = maps.builder
    x = maps.conv(builder.input("x", TensorType((3, 3, 1, 1), "int8")), 3, "a")
    flat = builder.add("reshape", [x], {"shape": (3, 3)}, output="flat")
    turned = builder.add("transpose", [flat], {"order": (1, 0)}, output="turned")
    y = builder.add("reshape", [turned], {"shape": (3, 3, 1, 1)}, output="y")
    graph = maps.finish(maps.conv(y, 4, "z"))
    assert ops(shuffles_to_selections(graph)) == ops(graph)


@pytest.mark.parametrize("groups", [1, 4, 24], ids=["dense", "grouped", "depthwise"])
def test_the_convolution_before_takes_the_order(groups: int, rng: np.random.Generator) -> None:
    maps = Maps(rng)
    x = maps.conv(maps.input(24), 24, "a", groups, pad=1, kernel=3 if groups < 24 else 1)
    graph = maps.finish(maps.select(x, list(rng.permutation(24)), "y"))
    changed = folded(graph)
    assert ops(changed) == ["q_conv2d"] and changed.nodes[0].attrs["groups"] == 1
    check_same(graph, changed, rng)


def test_convolutions_after_take_the_order(rng: np.random.Generator) -> None:
    """Of channels that two convolutions of a concat read, of which some are dropped."""
    maps = Maps(rng)
    x = maps.select(maps.input(40), [int(c) for c in rng.permutation(40)[:33]], "s")
    first, second = maps.conv(x, 20, "y", pad=1, kernel=3), maps.conv(x, 7, "z")
    graph = maps.finish(first, second)
    changed = folded(graph)
    assert ops(changed) == ["q_conv2d"] * 2
    check_same(graph, changed, rng)


def test_selections_join(rng: np.random.Generator) -> None:
    """Of a selection of a selection, whatever is around them."""
    maps = Maps(rng)
    x = maps.select(maps.input(20), list(rng.permutation(20)), "s")
    x = maps.select(x, list(rng.permutation(20)), "t")
    graph = maps.finish(maps.select(x, [3, 3, 4, 19], "y"))
    changed = folded(graph)
    assert ops(changed) == ["q_conv2d"]
    channels = selected_channels(changed, changed.nodes[0])
    assert channels is not None and channels[0] == channels[1]
    check_same(graph, changed, rng)


def other_reader(maps: Maps) -> Graph:
    """What is selected from is an output too."""
    x = maps.conv(maps.input(6), 8, "a")
    return maps.finish(maps.select(x, [7, 6, 5, 4, 3, 2, 1, 0], "y"), x)


def depthwise_reader(maps: Maps) -> Graph:
    x = maps.select(maps.input(6), [5, 4, 3, 2, 1, 0], "s")
    return maps.finish(maps.conv(x, 6, "y", groups=6))


def costly_reader(maps: Maps) -> Graph:
    """Few of many channels: the readers would multiply all of them."""
    x = maps.select(maps.input(160), [3, 50, 90], "s")
    return maps.finish(maps.conv(x, 40, "y", kernel=3))


def repeated(maps: Maps) -> Graph:
    x = maps.select(maps.input(6), [5, 4, 5], "s")
    return maps.finish(maps.conv(x, 6, "y"))


@pytest.mark.parametrize("make", [other_reader, depthwise_reader, costly_reader, repeated])
def test_what_does_not_fold(make: object, rng: np.random.Generator) -> None:
    assert callable(make)
    graph = make(Maps(rng))
    changed = folded(graph)
    assert ops(changed) == ops(graph)
    check_same(graph, changed, rng)


def test_gaps_of_a_concat_are_not_closed(rng: np.random.Generator) -> None:
    """The convolution that reads it skips them."""
    maps = Maps(rng)
    parts = [maps.input(count, f"x{count}") for count in (5, 18, 3)]
    params = maps.builder.constant("p", np.repeat(IDENTITY, 3, axis=0))
    attrs: dict[str, AttrValue] = {
        "channels": (5, 18, 3),
        "zero_point": 0,
        "low": -128,
        "high": 127,
    }
    joined = maps.builder.add("q_concat", [*parts, params], attrs, output="j")
    graph = maps.finish(maps.conv(joined, 9, "y"))
    aligned = align_channels(graph, block=BLOCK)
    assert ops(aligned) == ["q_concat", "q_conv2d", "q_conv2d"]
    changed = folded(aligned)
    assert ops(changed) == ["q_concat", "q_conv2d"]
    check_same(graph, changed, rng)


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs(seed: int) -> None:
    """Selections and convolutions of all kinds after each other, some of them outputs."""
    rng = np.random.default_rng(seed)
    maps = Maps(rng)
    tensors, outputs = [maps.input(24)], []
    for number in range(8):
        x = tensors[int(rng.integers(len(tensors)))]
        count = maps.builder.types[x].shape[1]
        if rng.integers(2):
            wanted = [int(c) for c in rng.permutation(count)]
            x = maps.select(x, wanted if rng.integers(2) else wanted[:24], f"t{number}")
        else:
            groups = [1, 2, 4, count][int(rng.integers(4))]
            outs = count if groups == count else 4 * int(rng.integers(6, 13))
            x = maps.conv(x, outs, f"t{number}", groups, pad=1, kernel=1 + 2 * int(rng.integers(2)))
            x = maps.select(x, list(range(24)), f"t{number}.head")
        tensors.append(x)
        if not rng.integers(4):
            outputs.append(x)
    graph = eliminate_dead_code(maps.finish(*dict.fromkeys([*outputs, tensors[-1]])))
    changed = folded(graph)
    assert len(changed.nodes) <= len(graph.nodes)
    check_same(graph, changed, rng)


@pytest.mark.parametrize("is_step", [False, True], ids=["once", "token by token"])
def test_a_step_reads_selected_channels_where_that_saves_weights(
    is_step: bool, rng: np.random.Generator
) -> None:
    """Each of 8 heads has 8 of its 16 channels: its reader would have twice the weights."""
    maps = Maps(rng)
    builder = maps.builder
    x = builder.input("x", TensorType((1, 128, 1, 1), "int8"))
    own = [16 * head + lane for head in range(8) for lane in range(8)]
    outputs = [maps.conv(maps.select(x, own, "own"), 64, "y")]
    if is_step:
        state = builder.input("state", TensorType((1, 64, 4, 1), "int8"))
        params = builder.constant("row.params", IDENTITY)
        row = {"axis": 2, "begin": 3}
        outputs.append(builder.add("q_append", [state, outputs[0], params], row, output="row"))
    graph = maps.finish(*outputs)
    changed = folded(graph)
    convs = [node for node in changed.nodes if node.op == "q_conv2d"]
    assert len(convs) == 1 + is_step
    assert changed.constant(convs[-1].inputs[1]).shape[1] == (64 if is_step else 128)
    check_same(graph, changed, rng)
