"""Configurations for layers that a network does not have."""

import numpy as np
import pytest

import daedal
from bench.qdq_model import QdqModel
from daedal.common.errors import TuningError, UserError
from daedal.compiler.frontend.importer import load_onnx
from daedal.compiler.layers.workload import workload_of
from daedal.compiler.ops.space import Config
from daedal.compiler.pipeline import compile_graph
from daedal.isa.variant import load_variant

TINY = load_variant("tiny")


@pytest.fixture(scope="module")
def model() -> bytes:
    net = QdqModel()
    x = net.requantized(net.input("x", (1, 8, 4, 4)), 0.05, 0)
    values = np.ones((8, 8, 1, 1), np.int8)
    y = net.requantized(net.op("Conv", x, net.weights(values, 0.01)), 0.05, 0)
    return net.model(y).SerializeToString()


@pytest.fixture(scope="module")
def keys(model: bytes) -> dict[str, str]:
    """The keys of its layers by their names."""
    compiled = compile_graph(load_onnx(model), TINY)
    return {
        node.name or node.output: workload_of(launch.graph, node).key
        for launch in compiled.launches
        for node in launch.graph.nodes
    }


def test_a_key_of_no_layer_is_refused(model: bytes, keys: dict[str, str]) -> None:
    config = Config.of(tile=1)
    with pytest.raises(UserError, match=r"'0000.*' is none of this network; leave it out"):
        daedal.compile(model, TINY, configs={"0" * 64: config})
    name = next(iter(keys))
    with pytest.raises(UserError, match=rf"'{name}' is none of .*; its key is '{keys[name]}'"):
        daedal.compile(model, TINY, configs={name: config})
    found = daedal.compile(model, TINY, configs={"0" * 64: config}, other_configs=True)
    assert found.program == daedal.compile(model, TINY).program


def test_a_config_that_is_none_is_refused(model: bytes) -> None:
    with pytest.raises(UserError, match=r"configs must be of the type Config, .* is dict; make it"):
        daedal.compile(model, TINY, configs={"0" * 64: {"tile": 1}})  # type: ignore[dict-item]


def test_a_config_of_other_knobs_is_to_blame(model: bytes, keys: dict[str, str]) -> None:
    configs = dict.fromkeys(keys.values(), Config.of(tile=1))
    with pytest.raises(TuningError, match=r"a configuration must build its layer, and tile=1 of"):
        daedal.compile(model, TINY, configs=configs)
