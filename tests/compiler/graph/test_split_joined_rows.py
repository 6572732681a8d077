"""Convolutions whose rows are joined load their input for each block of channels, if that hides."""

import numpy as np
import pytest

from daedal.compiler.graph import GraphBuilder, TensorType, run
from daedal.compiler.graph.ops.integer import UNCHANGED
from daedal.compiler.graph.passes import split_joined_rows
from daedal.compiler.graph.selection import PIXELWISE


@pytest.mark.parametrize(
    ("ins", "outs", "kernel", "convolutions"),
    [
        pytest.param(9, 8, 1, 2, id="few products"),
        pytest.param(9, 8, 3, 4, id="a window"),
        pytest.param(9, 9, 1, 6, id="a large result"),
        pytest.param(8, 6, 1, 4, id="a small input"),
    ],
)
def test_how_many_convolutions_there_are(
    ins: int, outs: int, kernel: int, convolutions: int, rng: np.random.Generator
) -> None:
    builder = GraphBuilder("rows")
    builder.input("x", TensorType((1, ins, 4, 4), "int8"))
    builder.constant("p", np.repeat([[0, 1, 6]], outs, axis=0))
    attrs = {**PIXELWISE, "pads": (kernel // 2,) * 4, **UNCHANGED}
    for name in "ab":
        weights = rng.integers(-128, 128, (outs, ins, kernel, kernel)).astype(np.int8)
        builder.constant(f"{name}.w", weights)
        builder.add("q_conv2d", ["x", f"{name}.w", "p"], attrs, output=name)
    builder.add("rows_view", ["a", "b"], output="y")
    graph = builder.finish(("y",))
    split = split_joined_rows(graph, block=4)
    assert [node.op for node in split.nodes].count("q_conv2d") == convolutions
    feeds = {"x": rng.integers(-128, 128, (1, ins, 4, 4)).astype(np.int8)}
    np.testing.assert_array_equal(run(split, feeds)["y"], run(graph, feeds)["y"])
