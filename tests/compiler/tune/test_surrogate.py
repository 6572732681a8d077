"""`Surrogate`: a Gaussian process whose parts can be computed in other ways."""

import numpy as np
import pytest

from daedal.compiler.tune.surrogate import (
    DEVIATION,
    NOISE,
    OPTIMISM,
    TRUST,
    TRUST_DEVIATION,
    Surrogate,
)

COUNT = 60


@pytest.fixture
def parts():
    """Reference and taught terms, and inputs of very different scales, one of them constant."""
    rng = np.random.default_rng(4)
    reference, taught = rng.normal(size=(2, COUNT))
    inputs = rng.normal(size=(COUNT, 4)) * [1, 1000, 0.01, 0] + 5
    return reference, taught, inputs


def posterior(parts, rows, cycles):
    """Means and deviations of one joint normal distribution, in which the constant is nearly
    free."""
    reference, taught, inputs = parts
    scaled = (inputs[:, :3] - inputs[:, :3].mean(axis=0)) / inputs[:, :3].std(axis=0)
    squares = ((scaled[:, None] - scaled) ** 2).mean(axis=2)
    alike = DEVIATION**2 * np.exp(-squares / 2)
    covariance = 1e6 + TRUST_DEVIATION**2 * np.outer(taught, taught) + alike
    noise = NOISE**2 * np.eye(len(rows))
    gain = covariance[:, rows] @ np.linalg.inv(covariance[np.ix_(rows, rows)] + noise)
    expected = reference + TRUST * taught
    means = expected + gain @ (np.log(cycles) - expected[rows])
    rest = alike[:, rows] @ np.linalg.inv(alike[np.ix_(rows, rows)] + noise) @ alike[rows]
    return means, np.sqrt(np.maximum(np.diag(alike - rest), 0))


@pytest.mark.parametrize("count", [1, 2, 7, 30])
def test_scores_are_those_of_a_joint_normal_distribution(parts, count):
    rng = np.random.default_rng(count)
    rows = rng.permutation(COUNT)[:count]
    cycles = np.exp(parts[0][rows] + rng.normal(0, 0.2, count) + 9)
    means, deviations = posterior(parts, rows, cycles)
    model = Surrogate(*parts)
    model.fit(rows, cycles)
    everything = np.arange(COUNT)
    assert np.allclose(model.expect(everything), means, atol=1e-4)
    ahead = model.expect(everything) - model.predict(everything)
    assert np.allclose(ahead, OPTIMISM * deviations, atol=1e-6)


def test_before_anything_is_measured_scores_are_what_was_taught(parts):
    reference, taught, _ = parts
    model = Surrogate(*parts)
    rows = np.arange(COUNT)
    scores, known = model.predict(rows), reference + TRUST * taught
    assert np.allclose(scores - scores[0], known - known[0])


def test_what_was_measured_is_forgotten(parts):
    rows = np.arange(COUNT)
    model, fresh = Surrogate(*parts), Surrogate(*parts)
    model.fit(rows[:5], np.full(5, 100.0))
    for each in (model, fresh):
        each.fit(rows[20:30], np.arange(1.0, 11.0))
    assert np.array_equal(model.predict(rows), fresh.predict(rows))


def test_a_factor_of_all_cycles_changes_no_order(parts):
    rows = np.arange(0, COUNT, 7)
    cycles = np.random.default_rng(1).uniform(1000, 2000, len(rows))
    scores = []
    for factor in (1, 1000):
        model = Surrogate(*parts)
        model.fit(rows, factor * cycles)
        scores.append(model.predict(np.arange(COUNT)))
    assert np.allclose(np.diff(scores[0] - scores[1]), 0)


def test_inputs_that_do_not_vary_say_nothing():
    model = Surrogate(np.zeros(3), np.zeros(3), np.ones((3, 2)))
    model.fit(np.array([0, 1]), np.array([10.0, 20.0]))
    assert np.ptp(model.predict(np.arange(3))) == 0
