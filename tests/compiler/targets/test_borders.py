"""Host and accelerator exchange only what the model has."""

import numpy as np
import pytest

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Graph
from daedal.compiler.graph.ops.integer import IDENTITY, UNCHANGED
from daedal.compiler.graph.same_elements import SameElements
from daedal.compiler.graph.types import TensorType
from daedal.compiler.graph.unfit import UnfitLayers
from daedal.compiler.targets.borders import check_borders

SCALE, ZERO = np.float32(0.1), np.int8(0)


def crossing() -> Graph:
    """What the accelerator computes, and a view of it, which the host reads."""
    builder = GraphBuilder("crossing")
    builder.input("x", TensorType((1, 6, 6, 1), "int8"))
    operands = ["x", builder.constant("identity", IDENTITY)]
    made = builder.add("q_requantize", operands, UNCHANGED, output="made")
    rows = builder.add("reshape", [made], {"shape": (6, 6)}, output="rows")
    scale, zero = (builder.constant(*item) for item in (("scale", SCALE), ("zero", ZERO)))
    return builder.finish([builder.add("dequantize", [rows, scale, zero], {"axis": 0}, output="y")])


@pytest.mark.parametrize("name", ["made", "rows"])
def test_a_view_of_what_the_model_has_may_cross(name: str) -> None:
    graph = crossing()
    check_borders(graph, SameElements([graph]), {"x", name, "y"})


def test_what_a_pass_created_may_not() -> None:
    graph = crossing()
    with pytest.raises(UnfitLayers, match="can only exchange tensors that the model") as caught:
        check_borders(graph, SameElements([graph]), {"x", "y"})
    assert list(caught.value.errors) == ["y"]
