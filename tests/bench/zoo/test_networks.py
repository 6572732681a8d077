"""The zoo: every network has its published size, and activations that keep theirs."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from bench.zoo.images import images
from bench.zoo.macs import model_macs
from bench.zoo.networks import NETWORKS, Network
from bench.zoo.settle import run_float, settle

pytest.importorskip("onnxruntime", reason="statistics are observed with onnxruntime")

NETWORK_TOLERANCE = 0.1
"""Papers round, count other borders, and AlexNet's images are a little larger."""
WEIGHTS_TOLERANCE = 0.03
"""Published numbers include biases and normalization."""


class _Blank(np.random.Generator):
    """Draws nothing: sizes do not depend on values, and VGG-19 has 144 million."""

    def standard_normal(self, size: Any, *_args: Any, **kwargs: Any) -> Any:
        return np.zeros(size, kwargs["dtype"])


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_sizes_are_the_published_ones(network: Network) -> None:
    model = network.structure(_Blank(np.random.PCG64()))
    assert model_macs(model) / 1e6 == pytest.approx(network.million_macs, rel=NETWORK_TOLERANCE)
    sizes = {tensor.name: int(np.prod(tensor.dims)) for tensor in model.graph.initializer}
    layers = [node for node in model.graph.node if node.op_type in ("Conv", "Gemm")]
    weights = sum(sizes[node.input[1]] for node in layers) / 1e6
    assert weights == pytest.approx(network.million_weights, rel=WEIGHTS_TOLERANCE)
    read = {name for node in model.graph.node for name in node.input}
    assert sizes.keys() <= read, "constants that nothing reads"


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2", "shufflenet", "squeezenet"])
def test_activations_neither_vanish_nor_explode(name: str) -> None:
    model = NETWORKS[name].build()
    tensors = [node.output[0] for node in model.graph.node if node.op_type == "Conv"]
    scores = [node for node in model.graph.node if node.op_type in ("Conv", "Gemm")][-1].output[0]
    seen = run_float(model, images(np.random.default_rng(2), 2), [*tensors, scores])
    deviations = {tensor: float(value.std()) for tensor, value in seen.items()}
    assert all(0.05 < deviation < 50 for deviation in deviations.values()), deviations
    first, second = seen[scores]
    assert np.abs(first - second).max() > 0.1 * first.std(), "images must make a difference"


def test_settled_statistics_are_those_of_the_images() -> None:
    rng = np.random.default_rng(3)
    model = NETWORKS["resnet18"].structure(rng)
    batch = images(rng, 2)
    settled = settle(model, batch)
    assert settled.graph.node == model.graph.node
    norms = [node for node in settled.graph.node if node.op_type == "BatchNormalization"]
    constants = {t.name: numpy_helper.to_array(t) for t in settled.graph.initializer}
    # The last one sees what all before it made of the images: it must be right to the last layer.
    for node in (norms[0], norms[-1]):
        seen = run_float(settled, batch, [node.input[0]])[node.input[0]]
        _, _, _, mean, variance = (constants.get(name) for name in node.input)
        np.testing.assert_allclose(mean, seen.mean((0, 2, 3)), rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(variance, seen.var((0, 2, 3)), rtol=1e-2)


def test_a_network_without_normalization_stays_as_it_is() -> None:
    model = NETWORKS["squeezenet"].structure(np.random.default_rng(4))
    assert settle(model, images(np.random.default_rng(4), 1)) == model


def test_a_network_is_the_same_every_time() -> None:
    first, second = (NETWORKS["mobilenet_v1"].build() for _ in range(2))
    assert isinstance(first, onnx.ModelProto)
    assert first.SerializeToString(deterministic=True) == second.SerializeToString(
        deterministic=True
    )


def test_images_are_normalized_and_differ() -> None:
    made = images(np.random.default_rng(5), 3)
    assert made.shape == (3, 3, 224, 224) and made.dtype == np.float32
    np.testing.assert_allclose(made.mean((1, 2, 3)), 0, atol=1e-4)
    np.testing.assert_allclose(made.std((1, 2, 3)), 1, atol=1e-3)
    # Large structures survive pooling: white noise of 224 x 224 would keep a deviation of 1/32.
    pooled = made.reshape(3, 3, 7, 32, 7, 32).mean((3, 5))
    assert pooled.std() > 0.2
    assert not np.allclose(made[0], made[1])
