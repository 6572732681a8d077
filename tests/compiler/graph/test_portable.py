"""`portable`: every operator's graph, in every layout, as JSON and back."""

import json
from typing import Any

import numpy as np
import pytest

from bench.qdq_model import QdqModel
from daedal.common.errors import ModelError
from daedal.compiler.frontend import load_onnx
from daedal.compiler.graph import Graph, run
from daedal.compiler.graph.layout import Layout, SplitLayout
from daedal.compiler.graph.passes import to_blocked
from daedal.compiler.graph.portable import LAYOUTS, graph_from_json, graph_to_json
from daedal.compiler.pipeline import graph_passes
from daedal.isa.variant import load_variant
from tests.support.operator_graphs.operators import OPERATORS
from tests.support.pick import Pick

TINY = load_variant("tiny")

CHANNEL_MOVES = ("slice", "pad", "concat")
"""Operators that another pass has to prepare for blocked layouts."""


def _image() -> Graph:
    """A convolution over three channels, in the layouts of the first layer."""
    rng = np.random.default_rng(3)
    model = QdqModel()
    x = model.requantized(model.input("x", (1, 3, 12, 12)), 0.05, 3)
    values = rng.integers(-127, 128, (8, 3, 5, 5)).astype(np.int8)
    y = model.op("Conv", x, model.weights(values, 0.01), pads=[2] * 4)
    graph = load_onnx(model.model(model.requantized(y, 0.5, 3)).SerializeToString())
    for _name, run_pass in graph_passes(TINY, (), ()):
        graph = run_pass(graph)
    return graph


def _graphs() -> list[Graph]:
    found = [OPERATORS[name].graph(Pick.seeded([7, 1]), TINY) for name in OPERATORS]
    array = TINY.array
    blocked = [
        to_blocked(
            graph,
            block_in=array.block_in,
            block_out=array.block_out,
            depthwise_taps=array.depthwise_taps,
        )
        for name, graph in zip(OPERATORS, found, strict=True)
        if name not in CHANNEL_MOVES
    ]
    product = OPERATORS["matmul"].graph(Pick.seeded([7, 1]), TINY)
    by_pixel = to_blocked(product, block_in=8, block_out=8, batch=4)
    return [*found, *blocked, by_pixel, _image()]


def _sent(graph: Graph) -> Graph:
    return graph_from_json(json.loads(json.dumps(graph_to_json(graph))))


def _kinds(cls: type) -> set[type]:
    return {cls, *(kind for sub in cls.__subclasses__() for kind in _kinds(sub))}


def test_every_operator_arrives_as_it_was(rng: np.random.Generator) -> None:
    seen = set()
    for graph in _graphs():
        found = _sent(graph)
        assert (found.name, found.inputs, found.outputs) == (
            graph.name,
            graph.inputs,
            graph.outputs,
        )
        assert found.nodes == graph.nodes and found.types == graph.types
        assert found.constants.keys() == graph.constants.keys()
        for name, array in graph.constants.items():
            np.testing.assert_array_equal(found.constants[name], array, strict=True)
        seen |= {type(item.layout) for item in graph.types.values()}
    assert seen == set(LAYOUTS), "the graphs have every layout"


def test_the_table_has_every_layout() -> None:
    assert set(LAYOUTS) == _kinds(Layout) - {Layout, SplitLayout}


def test_the_interpreter_gives_the_same_bytes(rng: np.random.Generator) -> None:
    graph = _image()
    feeds = {
        name: rng.integers(-5, 6, graph.types[name].physical_shape).astype(graph.types[name].dtype)
        for name in graph.inputs
    }
    (first,), (second,) = run(graph, feeds).values(), run(_sent(graph), feeds).values()
    np.testing.assert_array_equal(first, second)


def _drop(data: dict[str, Any]) -> None:
    del data["nodes"]


def _shorten(data: dict[str, Any]) -> None:
    name = next(iter(data["constants"]))
    data["constants"][name] = data["constants"][name][:-8]


def _rename(data: dict[str, Any]) -> None:
    data["nodes"][0]["inputs"][0] = "nowhere"


def _foreign(data: dict[str, Any]) -> None:
    next(iter(data["types"].values()))["layout"] = {"class": "Path", "path": "/"}


def _nest(data: dict[str, Any]) -> None:
    next(iter(data["types"].values()))["layout"] = {"class": "SubAxis"}


@pytest.mark.parametrize("harm", [_drop, _shorten, _rename, _foreign, _nest])
def test_what_is_no_graph_is_refused(harm: Any) -> None:
    data = graph_to_json(OPERATORS["conv2d"].graph(Pick.seeded([1]), TINY))
    harm(data)
    with pytest.raises(ModelError, match="a graph must be one that Daedal wrote"):
        graph_from_json(data)
    with pytest.raises(ModelError, match="a graph must be one that Daedal wrote"):
        graph_from_json([data])
