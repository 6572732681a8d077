"""Weights and biases as integers."""

import numpy as np
import pytest

from daedal.common.errors import ModelError
from daedal.compiler.quantization.weights import quantize_layer

STEP = np.float32(0.02)


@pytest.mark.parametrize("axis", [0, 1])
def test_every_channel_uses_all_of_its_range(rng: np.random.Generator, axis: int) -> None:
    weights = rng.normal(0, 1, (5, 5, 3)) * rng.uniform(0.1, 9, 5).reshape((-1, 1, 1))
    weights = np.moveaxis(weights, 0, axis).astype(np.float32)
    bias = rng.normal(0, 1, 5)
    layer = quantize_layer("w", weights, axis, bias, STEP)
    rows = np.moveaxis(layer.weights, axis, 0).reshape(5, -1)
    np.testing.assert_array_equal(np.abs(rows.astype(int)).max(axis=1), [127] * 5)
    scales = layer.scales.reshape([-1 if index == axis else 1 for index in range(3)])
    assert np.all(np.abs(layer.weights * scales - weights) <= 0.501 * scales)
    assert layer.bias is not None and layer.bias.dtype == np.int32
    np.testing.assert_allclose(layer.bias_scales, STEP * layer.scales)
    assert np.all(np.abs(layer.bias * layer.bias_scales - bias) <= 0.501 * layer.bias_scales)


def test_gains_of_batch_norms_are_exact(rng: np.random.Generator) -> None:
    gains = rng.normal(0, 3, 20).astype(np.float32)
    layer = quantize_layer("w", gains.reshape(-1, 1, 1, 1), 0, None, STEP)
    assert layer.bias is None
    np.testing.assert_array_equal(layer.weights.ravel(), 127 * np.sign(gains))
    np.testing.assert_allclose(layer.scales * 127, np.abs(gains), rtol=1e-6)


def test_large_biases_of_small_weights_fit() -> None:
    weights = np.array([[1e-20], [0.0], [0.0], [2.0]], np.float32)
    bias = np.array([3.0, -3.0, 0.0, 1e6])
    layer = quantize_layer("w", weights, 0, bias, STEP)
    assert layer.bias is not None
    assert np.all(np.abs(layer.bias.astype(np.int64)) <= 1 << 28)
    np.testing.assert_allclose(layer.bias * layer.bias_scales.astype(np.float64), bias, rtol=1e-6)
    assert np.all(layer.bias_scales > 0)


@pytest.mark.parametrize("where", ["weights", "bias"])
def test_they_must_be_finite(where: str) -> None:
    weights, bias = np.ones((2, 3), np.float32), np.zeros(2)
    {"weights": weights, "bias": bias}[where].flat[1] = np.inf
    with pytest.raises(ModelError, match="those of 'w' have NaN or infinite values; train or"):
        quantize_layer("w", weights, 0, bias, STEP)
