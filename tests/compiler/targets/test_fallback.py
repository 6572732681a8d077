"""Which quantized tensors are left to the host for a layer that does not fit."""

import numpy as np
import pytest

from daedal.common.errors import ScheduleError
from daedal.compiler.graph import GraphBuilder, TensorType
from daedal.compiler.graph.extract import extract
from daedal.compiler.graph.graph import Graph
from daedal.compiler.graph.same_elements import SameElements
from daedal.compiler.graph.unfit import UnfitLayers
from daedal.compiler.targets.fallback import Fallback

UNFIT = ScheduleError("it is too large")


def whole() -> Graph:
    """part is on the way to y_q, in another part of the graph."""
    builder = GraphBuilder("whole")
    builder.input("x", TensorType((2, 3), "float32"))
    builder.add("relu", ["x"], output="part")
    builder.add("relu", ["part"], output="other")
    builder.add("relu", ["other"], output="y_q")
    builder.add("relu", ["x"], output="alone")
    return builder.finish(["y_q", "alone"])


def fallback() -> Fallback:
    found = Fallback(whole())
    found.quantized = {"y_q"}
    return found


def test_a_layer_that_only_a_later_part_reads() -> None:
    part = extract(whole(), ["x"], ["part"])
    found = fallback()
    found.add([UnfitLayers(part, {"part": UNFIT})], whole())
    assert found.reasons == {"y_q": "it is too large"}
    assert found.first is UNFIT


def test_what_leads_to_no_quantized_tensor_is_an_error() -> None:
    with pytest.raises(ScheduleError, match=r"^it is too large$"):
        fallback().add([UnfitLayers(whole(), {"alone": UNFIT})], whole())
    found = fallback()
    found.add([UnfitLayers(whole(), {"other": UNFIT})])
    with pytest.raises(ScheduleError, match=r"^it is too large$"):
        found.add([UnfitLayers(whole(), {"part": UNFIT})])


def test_a_layer_that_computes_a_part_alone() -> None:
    """The tensor that it is a part of goes to the host, although no reader of the part is known;
    not one that the host gives."""
    builder = GraphBuilder("parts")
    builder.input("x", TensorType((4, 3), "float32"))
    scale = builder.constant("scale", np.float32(1))
    zero = builder.constant("zero", np.int8(0))
    builder.add("quantize", ["x", scale, zero], {"axis": 0}, output="x_q")
    builder.add("reshape", ["x_q"], {"shape": (3, 4)}, output="x.part")
    builder.add("reshape", ["x.part"], {"shape": (12,)}, output="y.part")
    builder.remember_part("x_q", "x.part", (4, 3), ((0, 1), (0, 3)))
    builder.remember_part("y_q", "y.part", (4, 3), ((0, 1), (0, 3)))
    graph = builder.finish(["y.part"])
    found = fallback()
    found.quantized = {"x_q", "y_q"}
    found.add([UnfitLayers(graph, {"x.part": UNFIT})], graph, SameElements([graph]))
    assert found.reasons == {"y_q": "it is too large"}
