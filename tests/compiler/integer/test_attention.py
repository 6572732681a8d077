"""Integer attention: weights and means within their bound of the real ones."""

import numpy as np
import pytest

from daedal.compiler.integer.attention import (
    HIDDEN,
    LARGEST_WEIGHT,
    MAX_KEYS,
    MeanConstants,
    attention_weights,
    error_bound,
    hiding_factor,
    index_step,
    mask_of_biases,
    result_unit,
    weight_step,
    weight_table,
    weighted_mean,
)
from daedal.isa.numerics import quantize_multiplier

UNBOUNDED = 1 << 30


def mean_of(
    scores: np.ndarray, values: np.ndarray, scale: float, ratio: float, zero_point: int = 0
) -> np.ndarray:
    """Both steps: scores (K, Q), values (K, C); the result is (C, Q)."""
    weights = attention_weights(scores, index_step(scale, 17), weight_table(scale)).astype(np.int64)
    constants = MeanConstants.of(len(scores), 17)
    params = (-zero_point * result_unit(), *quantize_multiplier(ratio / result_unit(), 17))
    products, total = values.T @ weights, weights.sum(axis=0, keepdims=True)
    return weighted_mean(products, total, constants, params, 0, -UNBOUNDED, UNBOUNDED)


def probabilities(scores: np.ndarray, scale: float) -> np.ndarray:
    exponents = np.exp((scores - scores.max(axis=0)) * scale)
    return np.asarray(exponents / exponents.sum(axis=0))


@pytest.mark.parametrize("seed", range(12))
def test_error_is_within_the_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for keys in (1, 2, 16, 50, 128, 256, 259, 600):
        scale = float(np.exp(rng.uniform(np.log(1e-6), 0)))
        width = float(np.exp(rng.uniform(-2, 4))) / scale
        scores = np.rint(np.clip(rng.normal(0, width, (keys, 8)), -(1 << 22), 1 << 22))
        scores[:, 0], scores[:, 1] = 0, rng.integers(0, 2, keys) * 1000
        scores = scores.astype(np.int64)
        values = rng.integers(-128, 128, (keys, 6))
        values[:, 0], values[:, 1] = -128, 127
        zero_point, ratio = int(rng.integers(-128, 128)), float(rng.uniform(0.3, 4))
        found = mean_of(scores, values, scale, ratio, zero_point)
        p = probabilities(scores, scale)
        for query in range(scores.shape[1]):
            real = (p[:, query] @ values - zero_point) * ratio
            bound = error_bound(p[:, query], values, scale, ratio, 1.0)
            assert (np.abs(found[:, query] - real) <= bound).all(), (seed, keys, scale, query)


@pytest.mark.parametrize(("deviation", "share"), [(0.5, 0.25), (1.0, 0.5), (2.0, 1.0)])
def test_weights_are_more_accurate_than_probabilities_of_8_bits(
    deviation: float, share: float
) -> None:
    rng = np.random.default_rng(0)
    scores = np.rint(rng.normal(0, deviation, (128, 400)) * 1000).astype(np.int64)
    values = rng.integers(-128, 128, (128, 32))
    p = probabilities(scores, 1e-3)
    real = values.T @ p
    errors = mean_of(scores, values, 1e-3, 1.0) - real
    rounded = np.rint(values.T @ (np.rint(p * 255) / 255)) - real
    assert np.square(errors).mean() < share * np.square(rounded).mean()


def test_sums_of_most_keys_do_not_overflow() -> None:
    scores = np.zeros((MAX_KEYS, 1), dtype=np.int64)
    for value in (-128, 127):
        values = np.full((MAX_KEYS, 1), value)
        assert abs(value) * LARGEST_WEIGHT * MAX_KEYS < 1 << 31
        assert abs(int(mean_of(scores, values, 1e-3, 1.0)[0, 0]) - value) <= 1


@pytest.mark.parametrize("scale", [1e-5, 1e-3, 0.1])
def test_a_hidden_score_has_no_weight_however_large_it_is(scale: float) -> None:
    largest = 32 * 128 * 128
    factor = hiding_factor(scale, largest)
    assert factor is not None
    scores = np.array([[-largest], [largest + HIDDEN * factor], [-largest]])
    weights = attention_weights(scores, index_step(scale, 17), weight_table(scale))
    np.testing.assert_array_equal(weights[:, 0], [127, 0, 127])


def test_biases_are_less_the_largest_of_their_query() -> None:
    """In steps of the scores; what hides certainly leads to a weight of 0."""
    scale, largest = 0.01, 5_000
    biases = np.array([[0.5, -0.25, -np.inf], [3.0, 3.0, 2.0], [-1e9, -1e9, -1e9]])
    found = mask_of_biases(biases, scale, largest)
    assert found is not None
    integers, filler = found
    assert integers.tolist() == [[0, -75, filler], [0, 0, -100], [0, 0, 0]]
    scores = np.array([-largest, 0, largest]) + integers[0]
    weights = attention_weights(scores[:, None], index_step(scale, 17), weight_table(scale))
    assert weights[2, 0] == 0


@pytest.mark.parametrize("bias", [np.inf, np.nan])
def test_biases_that_are_no_numbers_have_no_integers(bias: float) -> None:
    assert mask_of_biases([0.0, bias], 0.01, 100) is None


def test_nothing_hides_scores_that_are_too_large() -> None:
    assert hiding_factor(1e-3, 1 << 24) is None


def test_weights_are_monotone_and_end_in_zero() -> None:
    for scale in (1e-4, 0.03, 0.5):
        table = weight_table(scale).astype(int)
        assert table[-1] == LARGEST_WEIGHT
        assert table[0] == 0
        assert (np.diff(table) >= 0).all()
        # Weights that are left out would have been less than one half.
        assert LARGEST_WEIGHT * np.exp(-255 * weight_step(scale)) < 0.5


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: MeanConstants.of(0, 17), "a query must have 1 to 65536 keys, not 0"),
        (lambda: MeanConstants.of(65537, 17), "a query must have 1 to 65536 keys, not 65537"),
        (lambda: weight_step(0.0), "the scale of scores must be positive, not 0.0"),
    ],
)
def test_refuses_what_it_cannot_hold(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
