"""Dense layers: one vector meets each weight once, so the bus is the bound; weights must stream."""

import numpy as np
import pytest

import daedal
from bench.qdq_model import QdqModel
from daedal.checking.integer_reference import processor_graph
from daedal.compiler.graph import run_all
from daedal.isa.variant import load_variant


@pytest.mark.parametrize(
    ("variant", "inputs", "share"), [("vta", 512, 0.95), ("vta", 1024, 0.95), ("wide", 512, 0.92)]
)
def test_classifiers_run_at_the_rate_of_the_bus(variant, inputs, share, rng):
    model = QdqModel()
    x = model.requantized(model.input("x", (1, inputs)), 0.02, 3, output="x_q")
    values = rng.integers(-127, 128, (1000, inputs), dtype=np.int8)
    y = model.op("Gemm", x, model.weights(values, 0.01), transB=1)
    y = model.requantized(y, 0.02 * 0.01 * 73 * 74 * np.sqrt(inputs) / 40, -5, output="y_q")
    proto = model.model(y).SerializeToString()
    artifact = daedal.compile(proto, variant)
    feeds = {"x": rng.uniform(-2.6, 2.6, (1, inputs)).astype(np.float32)}
    result = daedal.simulate(artifact, feeds, device="timing")
    expected = run_all(processor_graph(proto, load_variant(variant)), feeds)["y_q"]
    np.testing.assert_array_equal(result.tensors["y_q"].reshape(expected.shape), expected)
    bound = artifact.layers[0].bytes_once / artifact.program.variant.bus_bytes
    assert result.profiles[0].cycles <= bound / share
