"""Layers of one kind are scheduled once, whichever launches they are in, with the same result."""

from unittest import mock

import numpy as np

import daedal
from bench.qdq_model import QdqModel
from daedal.compiler.layers import layer_code
from daedal.compiler.ops.accelerator.lowering import lower_node


def test_launches_share_the_code_of_equal_layers(rng: np.random.Generator) -> None:
    """Three convolutions with the host between them; the second one has another window."""
    maker = QdqModel()
    x = maker.requantized(maker.input("x", (1, 4, 6, 6)), 0.05, 3)
    for kernel in (3, 1, 3):
        values = rng.integers(-127, 128, (4, 4, kernel, kernel)).astype(np.int8)
        y = maker.op("Conv", x, maker.weights(values, 0.01), pads=[kernel // 2] * 4)
        soft = maker.op("Softmax", maker.requantized(y, 0.08, 3), axis=1)
        x = maker.requantized(soft, 0.004, 3)
    with mock.patch.object(layer_code, "lower_node", side_effect=lower_node) as lower:
        data = maker.model(x).SerializeToString()
        artifact = daedal.compile(data, "tiny", host=None, cache=False)
    assert len(artifact.launches) == len(artifact.layers) == 3
    assert lower.call_count == 2


def test_equal_layers_of_one_launch_have_the_program_of_layers_built_apart(
    rng: np.random.Generator,
) -> None:
    """They share instances, and differ in weights, zero points and multipliers."""
    maker = QdqModel()
    x = maker.requantized(maker.input("x", (1, 4, 6, 6)), 0.05, 3)
    for zero_point in (1, -5, 0):
        values = rng.integers(-127, 128, (4, 4, 3, 3)).astype(np.int8)
        y = maker.op("Conv", x, maker.weights(values, 0.01), pads=[1] * 4)
        y = maker.requantized(y, 0.08 + zero_point / 100, zero_point)
        x = maker.requantized(maker.op("Add", x, y), 0.05, 3)
    data = maker.model(x).SerializeToString()
    with mock.patch.object(layer_code, "lower_node", side_effect=lower_node) as lower:
        shared = daedal.compile(data, "tiny", host=None, cache=False)
        assert lower.call_count == 1 and len(shared.layers) == 3
        with (
            mock.patch.object(layer_code, "_kind", lambda _graph, node, _variant: node.output),
            mock.patch.object(layer_code, "with_placeholders", lambda node: (node, {})),
        ):
            apart = daedal.compile(data, "tiny", host=None, cache=False)
        assert lower.call_count == 1 + len(apart.layers)
    assert shared.to_bytes() == apart.to_bytes()
