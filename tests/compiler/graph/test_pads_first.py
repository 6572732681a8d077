"""Pads move behind what they pad; everything else keeps its order."""

import numpy as np

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Graph
from daedal.compiler.graph.interpreter import run
from daedal.compiler.graph.ops.integer import IDENTITY, UNCHANGED
from daedal.compiler.graph.passes import pads_first
from daedal.compiler.graph.selection import PIXELWISE
from daedal.compiler.graph.types import TensorType

PADS = {"pads": (0, 0, 0, 0, 0, 0, 3, 0), "pad_value": 5, **UNCHANGED}
SAMPLE = np.arange(32, dtype=np.int8).reshape(1, 8, 4, 1)


def a_graph() -> Graph:
    """Two pads far behind their maps, a pad of a pad, and a pad of an input."""
    builder = GraphBuilder("pads")
    builder.input("x", TensorType((1, 8, 4, 1), "int8"))
    builder.constant("same", IDENTITY)
    builder.add("q_requantize", ["x", "same"], UNCHANGED, output="a")
    builder.add("q_requantize", ["a", "same"], UNCHANGED, output="b")
    builder.add("q_requantize", ["b", "same"], UNCHANGED, output="c")
    builder.add("q_pad", ["x", "same"], PADS, output="x.padded")
    builder.add("q_pad", ["a", "same"], PADS, output="a.padded")
    builder.add("q_pad", ["a.padded", "same"], PADS, output="a.padded.padded")
    builder.add("q_pad", ["c", "same"], PADS, output="c.padded")
    return builder.finish(("x.padded", "a.padded.padded", "b", "c.padded"))


def test_pads_move_behind_the_maps() -> None:
    graph = pads_first(a_graph())
    order = [node.output for node in graph.nodes]
    assert order == ["a", "a.padded", "a.padded.padded", "b", "c", "c.padded", "x.padded"]
    assert graph.outputs == a_graph().outputs


def test_nothing_else_changes() -> None:
    before, after = a_graph(), pads_first(a_graph())
    assert dict(before.producers) == dict(after.producers)
    assert before.types == after.types


def test_pads_let_convolutions_of_the_map_go_first() -> None:
    """As far as they follow it directly, and read nothing else."""
    builder = GraphBuilder("pads")
    builder.input("x", TensorType((1, 8, 4, 1), "int8"))
    builder.constant("same", IDENTITY)
    builder.constant("params", IDENTITY.repeat(8, axis=0))
    builder.constant("w", np.zeros((8, 8, 1, 1), dtype=np.int8))

    def convolution(source: str, output: str) -> None:
        operands = [source, "w", "params"]
        builder.add("q_conv2d", operands, {**PIXELWISE, **UNCHANGED}, output=output)

    builder.add("q_requantize", ["x", "same"], UNCHANGED, output="a")
    convolution("a", "q")
    convolution("a", "k")
    builder.add("q_requantize", ["k", "same"], UNCHANGED, output="s")
    convolution("a", "u")
    builder.add("q_pad", ["a", "same"], PADS, output="a.padded")
    builder.add("q_pad", ["k", "same"], PADS, output="k.padded")
    builder.add("q_pad", ["u", "same"], PADS, output="u.padded")
    graph = builder.finish(("q", "s", "a.padded", "k.padded", "u.padded"))
    order = [node.output for node in pads_first(graph).nodes]
    assert order == ["a", "q", "k", "k.padded", "a.padded", "s", "u", "u.padded"]
    evaluated = [run(item, {"x": SAMPLE}) for item in (graph, pads_first(graph))]
    for name in graph.outputs:
        np.testing.assert_array_equal(evaluated[0][name], evaluated[1][name])
