"""`LayerRunner`: every configuration of a space builds and gives the layer's bytes."""

import numpy as np
import pytest

from daedal.compiler.frontend import load_onnx
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.ops.accelerator.lowering import space_of
from daedal.compiler.pipeline import compile_graph
from daedal.compiler.workload import workload_of
from daedal.isa.errors import TuningError
from daedal.isa.variant import Variant, load_variant
from daedal.tuning.layer_runner import LayerRunner
from tests.compiler.graph.qdq_models import QdqModel

TINY = load_variant("tiny")


def _layer(
    variant: Variant, *, pad: int = 1, stride: int = 1, scale: float = 0.01
) -> tuple[Graph, Node]:
    """The second of two convolutions, 8 -> 16 channels on 12 x 12."""
    rng = np.random.default_rng(3)
    model = QdqModel()
    x = model.requantized(model.input("x", (1, 8, 12, 12)), 0.05, 3)
    for number, (ins, outs) in enumerate(((8, 8), (8, 16))):
        values = rng.integers(-127, 128, (outs, ins, 3, 3)).astype(np.int8)
        weights = model.weights(values, scale)
        strides = [stride if number else 1] * 2
        y = model.op("Conv", x, weights, pads=[pad if number else 1] * 4, strides=strides)
        x = model.requantized(y, 0.05, 3)
    compiled = compile_graph(load_onnx(model.model(x).SerializeToString()), variant, host=None)
    graph = compiled.launch.graph
    return graph, next(node for node in reversed(graph.nodes) if node.op.startswith("q_conv2d"))


@pytest.mark.parametrize("stride", [1, 2])
def test_every_drawn_configuration_computes_the_layer(
    stride: int, rng: np.random.Generator
) -> None:
    graph, node = _layer(TINY, stride=stride)
    space = space_of(graph, node, TINY)
    assert space is not None
    configs = [space.default, *space.sample(rng, 12)]
    cycles = LayerRunner(graph, node, TINY)(configs)
    assert None not in cycles, "a configuration that fits could not be built"
    assert len(set(cycles)) > 3, "configurations make no difference"


def test_a_configuration_that_cannot_be_built_has_no_cycles() -> None:
    graph, node = _layer(TINY)
    space = space_of(graph, node, TINY)
    assert space is not None
    config = type(space.default)((*space.default.values[:-1], ("tap_columns", 99)))
    assert LayerRunner(graph, node, TINY)([config]) == [None]


def test_wrong_bytes_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, node = _layer(TINY)
    space = space_of(graph, node, TINY)
    assert space is not None
    runner = LayerRunner(graph, node, TINY)
    wrong = bytearray(runner._expected)
    wrong[-1] ^= 1
    monkeypatch.setattr(runner, "_expected", bytes(wrong))
    with pytest.raises(TuningError, match=r"must compute the layer .* gives other bytes: gather=0"):
        runner([space.default])


def test_workloads_ignore_scales_and_see_geometry() -> None:
    key = workload_of(*_layer(TINY)).key
    assert workload_of(*_layer(TINY, scale=0.02)).key == key
    assert workload_of(*_layer(TINY, pad=0)).key != key
    assert workload_of(*_layer(TINY, stride=2)).key != key
