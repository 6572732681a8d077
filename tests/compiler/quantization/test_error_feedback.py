"""Rounding to 4 bits, where later weights make up for what earlier ones lost."""

import numpy as np
import pytest

from daedal.compiler.quantization.error_feedback import round_with_feedback


def relative_error(weights: np.ndarray, rounded: np.ndarray, x: np.ndarray) -> float:
    change = (weights - rounded) @ x.T
    return float(np.sum(np.square(change)) / np.sum(np.square(weights @ x.T)))


def nearest(weights: np.ndarray) -> np.ndarray:
    scales = np.abs(weights).max(axis=1, keepdims=True) / 7
    return np.clip(np.rint(weights / scales), -8, 7) * scales


def samples(rng: np.random.Generator, inputs: int) -> np.ndarray:
    """Inputs that go together, as those of a network do."""
    return rng.normal(size=(2000, inputs)) @ rng.normal(size=(inputs, inputs)) ** 3


@pytest.mark.parametrize(("outputs", "inputs"), [(16, 24), (3, 60)])
def test_products_change_less_than_by_rounding(
    outputs: int, inputs: int, rng: np.random.Generator
) -> None:
    """On samples that were not seen, too."""
    weights, x = rng.normal(size=(outputs, inputs)), samples(rng, inputs)
    seen, unseen = x[:1000], x[1000:]
    found = round_with_feedback(weights, seen.T @ seen, 4)
    assert found.steps.dtype == np.int8
    assert found.steps.min() >= -8 and found.steps.max() <= 7 and (found.scales > 0).all()
    rounded = found.steps * found.scales[:, None]
    assert relative_error(weights, rounded, unseen) < 0.5 * relative_error(
        weights, nearest(weights), unseen
    )


def test_inputs_that_never_are_anything_change_nothing(rng: np.random.Generator) -> None:
    weights, x = rng.normal(size=(4, 8)), samples(rng, 8)
    x[:, 3] = 0
    found = round_with_feedback(weights, x.T @ x, 4)
    assert relative_error(weights, found.steps * found.scales[:, None], x) < 0.02
    nothing = round_with_feedback(weights, np.zeros((8, 8)), 4)
    assert np.abs(weights - nothing.steps * nothing.scales[:, None]).max() < 0.5


def test_weights_on_the_grid_stay(rng: np.random.Generator) -> None:
    steps = rng.integers(-7, 8, (5, 9))
    steps[:, 0] = 7
    scales, x = rng.uniform(0.1, 2, 5), samples(rng, 9)
    found = round_with_feedback(steps * scales[:, None], x.T @ x, 4)
    np.testing.assert_array_equal(found.steps, steps)
    np.testing.assert_allclose(found.scales, scales)


def test_outputs_without_weights_get_a_scale() -> None:
    found = round_with_feedback(np.zeros((2, 3)), np.eye(3), 4)
    assert not found.steps.any() and (found.scales > 0).all()
