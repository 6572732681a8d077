"""The vision transformer of digits: its gradients and the committed model."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from examples.attention import layers
from examples.attention.export import export_float
from examples.attention.network import TOKENS, forward, initialise, loss_and_gradients
from examples.attention.train import main
from examples.digits.data import demo_images, load_split
from examples.digits.evaluate import accuracy, predict
from examples.digits.layers import softmax

FLOAT = Path(__file__).resolve().parents[2] / "examples" / "attention" / "attention.onnx"


def parameters() -> dict[str, np.ndarray]:
    """Parameters of the committed model, as training had them."""
    values = {c.name: numpy_helper.to_array(c) for c in onnx.load(FLOAT).graph.initializer}
    params = {
        name: values[name].astype(np.float64) for name in initialise(np.random.default_rng(0))
    }
    kernel = params["embed.weight"]
    return params | {"embed.weight": kernel.reshape(len(kernel), -1).T}


def assert_same_up_to_rounding(found: onnx.ModelProto) -> None:
    """Processors add in other orders, which shows in the last bits after thousands of steps."""
    expected = onnx.load(FLOAT)
    for ours, committed in zip(found.graph.initializer, expected.graph.initializer, strict=True):
        np.testing.assert_allclose(
            numpy_helper.to_array(ours),
            numpy_helper.to_array(committed),
            rtol=1e-6,
            atol=1e-8,
            err_msg=committed.name,
        )
        ours.CopyFrom(committed)
    assert found == expected


def test_attention_is_the_sum_it_is_defined_as(rng: np.random.Generator) -> None:
    query, key, value = rng.normal(size=(3, 2, 5, 6))
    expected = np.zeros((2, 5, 6))
    for n, head, t in np.ndindex(2, 2, 5):
        part = slice(3 * head, 3 * head + 3)
        scores = [np.dot(query[n, t, part], key[n, s, part]) / np.sqrt(3) for s in range(5)]
        weights = np.exp(scores) / np.sum(np.exp(scores))
        expected[n, t, part] = weights @ value[n, :, part]
    found, probabilities = layers.attention(query, key, value, heads=2)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(probabilities.sum(axis=-1), np.ones((2, 2, 5)))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_gradients_are_the_finite_differences(rng: np.random.Generator, smoothing: float) -> None:
    params = {k: v + rng.normal(0, 0.1, v.shape) for k, v in initialise(rng).items()}
    images, labels = rng.random((3, 1, 8, 8)), rng.integers(0, 10, 3)
    _, gradients = loss_and_gradients(params, images, labels, smoothing)
    assert gradients.keys() == params.keys()
    step = 1e-6
    for name, value in params.items():
        direction = rng.normal(size=value.shape)
        ends = [
            loss_and_gradients(params | {name: value + s * direction}, images, labels, smoothing)[0]
            for s in (step, -step)
        ]
        numeric = (ends[0] - ends[1]) / (2 * step)
        assert np.sum(gradients[name] * direction) == pytest.approx(numeric, rel=1e-4, abs=1e-7), (
            name
        )


def test_committed_model_is_small_and_accurate() -> None:
    assert FLOAT.stat().st_size < 100_000
    split = load_split()
    assert accuracy(FLOAT, *split.select(split.test)) >= 0.96


def test_numpy_network_is_the_float_model() -> None:
    images, _ = demo_images(16)
    assert TOKENS == 16
    found = softmax(forward(parameters(), images))
    np.testing.assert_allclose(found, predict(FLOAT, images), atol=1e-5)


def test_committed_model_is_the_export_of_its_parameters() -> None:
    assert export_float(parameters()).SerializeToString() == FLOAT.read_bytes()


@pytest.mark.slow
def test_training_again_gives_the_committed_model(tmp_path: Path) -> None:
    main(["--out", str(tmp_path)])
    assert_same_up_to_rounding(onnx.load(tmp_path / FLOAT.name))
