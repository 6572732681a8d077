"""The regression predicts functions of the kinds that areas have, and knows its error."""

import numpy as np

from daedal.codesign.hardware.regression import Regression


def sampled(seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of a product of powers of some features, and a bend; others change nothing."""
    rng = np.random.default_rng(seed)
    features = rng.integers(1, 6, (count, 6)).astype(float)
    targets = 3 + 0.7 * features[:, 0] + 0.3 * features[:, 1] + 0.2 * np.abs(features[:, 2] - 3)
    return features, targets


def test_unseen_rows_are_predicted() -> None:
    for seed in range(5):
        model = Regression.fit(*sampled(seed, 60))
        features, targets = sampled(seed + 100, 40)
        error = np.sqrt(np.mean((model.predict(features) - targets) ** 2))
        assert error < 0.12, seed
        assert np.std(targets) > 5 * error, seed


def test_the_deviation_is_that_of_leaving_one_out() -> None:
    features, targets = sampled(0, 12)
    model = Regression.fit(features, targets)
    errors = []
    for left in range(len(targets)):
        others = np.arange(len(targets)) != left
        rest = Regression(
            model.features[others], model.center, model.spread, model.mean, model.length,
            model.noise, *_solved(model, others, targets), 0.0,
        )  # fmt: skip
        errors.append(targets[left] - rest.predict(features[left : left + 1])[0])
    assert np.isclose(np.sqrt(np.mean(np.square(errors))), model.deviation)


def _solved(
    model: Regression, rows: np.ndarray, targets: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Inverse and weights of the kernel of `rows` alone, from the model's own kernel matrix."""
    kernel = np.linalg.inv(model.inverse)[np.ix_(rows, rows)]
    inverse = np.linalg.inv(kernel)
    return inverse, inverse @ (targets[rows] - model.mean) * float(np.var(targets))


def test_one_value_is_predicted_everywhere() -> None:
    features, targets = sampled(0, 10)
    model = Regression.fit(features, np.full_like(targets, 7.0))
    assert np.allclose(model.predict(features + 1), 7.0)


def test_uncertainty_is_that_of_the_joint_normal_distribution() -> None:
    """Conditioned by solving with the covariance of everything, instead of a kept inverse."""
    features, targets = sampled(1, 14)
    model = Regression.fit(features[:10], targets[:10])
    scaled = (features - model.center) / model.spread
    squares = ((scaled[:, None] - scaled[None]) ** 2).sum(axis=2)
    dims = features.shape[1]
    smooth = np.exp(-squares / (2 * model.length**2 * dims / 4))
    covariance = model.scale**2 * (smooth + 200.0 * (1 + scaled @ scaled.T) / dims)
    inner = covariance[:10, :10] + model.noise * np.eye(10)
    across = covariance[10:, :10]
    left = covariance[10:, 10:] - across @ np.linalg.solve(inner, across.T)
    found = model.uncertainty(features[10:])
    assert np.allclose(found, np.sqrt(np.diag(left)), rtol=1e-3)
    assert (model.uncertainty(features[:10]) < found.max()).all()


def test_length_and_noise_of_another() -> None:
    """They are kept, not chosen: the least loss over these rows is with others."""
    features, targets = sampled(2, 40)
    first = Regression.fit(features[:8], targets[:8])
    chosen = Regression.fit(features, targets)
    kept = Regression.fit(features, targets, first)
    assert (kept.length, kept.noise / kept.scale**2) == (first.length, first.noise / first.scale**2)
    assert (kept.length, kept.noise) != (chosen.length, chosen.noise)
    assert kept.deviation > chosen.deviation
    again = Regression.fit(features, targets, chosen)
    assert np.allclose(again.predict(features + 0.5), chosen.predict(features + 0.5))
