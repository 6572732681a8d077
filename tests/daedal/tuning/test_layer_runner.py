"""`LayerRunner`: every configuration of a space builds and gives the layer's bytes."""

import numpy as np
import pytest

from daedal.compiler.ops.accelerator.lowering import space_of
from daedal.compiler.workload import workload_of
from daedal.isa.errors import TuningError
from daedal.isa.variant import load_variant
from daedal.tuning.layer_runner import LayerRunner
from tests.support.conv_nodes import conv_layer

TINY = load_variant("tiny")


@pytest.mark.parametrize("stride", [1, 2])
def test_every_drawn_configuration_computes_the_layer(
    stride: int, rng: np.random.Generator
) -> None:
    graph, node = conv_layer(TINY, stride=stride)
    space = space_of(graph, node, TINY)
    assert space is not None
    configs = [space.default, *space.sample(rng, 12)]
    cycles = LayerRunner(graph, node, TINY)(configs)
    assert None not in cycles, "a configuration that fits could not be built"
    assert len(set(cycles)) > 3, "configurations make no difference"


def test_a_configuration_that_cannot_be_built_has_no_cycles() -> None:
    graph, node = conv_layer(TINY)
    space = space_of(graph, node, TINY)
    assert space is not None
    config = type(space.default)((*space.default.values[:-1], ("tap_columns", 99)))
    assert LayerRunner(graph, node, TINY)([config]) == [None]


def test_wrong_bytes_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, node = conv_layer(TINY)
    space = space_of(graph, node, TINY)
    assert space is not None
    runner = LayerRunner(graph, node, TINY)
    wrong = bytearray(runner._expected)
    wrong[-1] ^= 1
    monkeypatch.setattr(runner, "_expected", bytes(wrong))
    with pytest.raises(TuningError, match=r"must compute the layer .* gives other bytes: gather=0"):
        runner([space.default])


def test_workloads_ignore_scales_and_see_geometry() -> None:
    key = workload_of(*conv_layer(TINY)).key
    assert workload_of(*conv_layer(TINY, scale=0.02)).key == key
    assert workload_of(*conv_layer(TINY, pad=0)).key != key
    assert workload_of(*conv_layer(TINY, stride=2)).key != key
