"""The fit finds the factors of sums, keeps them from being negative, and knows its error."""

import numpy as np

from daedal.codesign.hardware.nonnegative import NonnegativeFit


def sums(seed: int, count: int, noise: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sizes of three orders of magnitude, their sums, and the factors."""
    rng = np.random.default_rng(seed)
    sizes = np.column_stack([np.ones(count), 2.0 ** rng.integers(2, 12, (count, 4))])
    factors = np.array([300.0, 6.0, 0.5, 0.0, 40.0])
    return sizes, (sizes @ factors) * np.exp(rng.normal(0, noise, count)), factors


def test_factors_are_found_and_hold_outside_the_table() -> None:
    for seed in range(5):
        sizes, amounts, factors = sums(seed, 15)
        model = NonnegativeFit.fit(sizes, amounts)
        larger = 8 * sizes
        assert np.allclose(model.predict(larger), larger @ factors, rtol=0.02), seed


def test_no_factor_is_negative() -> None:
    """Of amounts that fall with a size, too."""
    for seed in range(5):
        sizes, amounts, _ = sums(seed, 12, noise=0.3)
        model = NonnegativeFit.fit(sizes, amounts[::-1])
        assert (model.factors >= 0).all(), seed
        one = NonnegativeFit.fit(np.column_stack([np.ones(4), np.arange(4)]), 9.0 - np.arange(4))
        assert one.factors[1] == 0


def test_it_is_the_best_of_its_kind() -> None:
    """No small step of a factor makes the relative errors less."""
    sizes, amounts, _ = sums(3, 12, noise=0.2)
    factors = NonnegativeFit.fit(sizes, amounts).factors

    def loss(chosen: np.ndarray) -> float:
        return float(np.sum(((sizes @ chosen - amounts) / (amounts + 100)) ** 2))

    for place in range(len(factors)):
        for change in (0.8, 1.25):
            moved = factors.copy()
            moved[place] *= change
            assert loss(moved) >= loss(factors) * (1 - 1e-3), place


def test_the_deviation_is_about_that_of_leaving_one_out() -> None:
    sizes, amounts, _ = sums(1, 30, noise=0.1)
    errors = []
    for left in range(len(amounts)):
        others = np.arange(len(amounts)) != left
        rest = NonnegativeFit.fit(sizes[others], amounts[others])
        errors.append((rest.predict(sizes[left : left + 1])[0] - amounts[left]) / amounts[left])
    deviation = NonnegativeFit.fit(sizes, amounts).deviation
    assert np.isclose(np.sqrt(np.mean(np.square(errors))), deviation, rtol=0.3)


def test_doubt_is_largest_for_sizes_that_the_table_lacks() -> None:
    rng = np.random.default_rng(0)
    sizes = np.column_stack([np.ones(10), rng.integers(1, 9, 10), np.zeros(10)]).astype(float)
    model = NonnegativeFit.fit(sizes, sizes @ np.array([100.0, 50.0, 50.0]))
    inside, outside = model.doubt(np.array([[1.0, 5.0, 0.0], [1.0, 5.0, 5.0]]))
    assert outside > 10 * inside
