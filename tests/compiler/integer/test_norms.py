"""Integer layer norm and RMS norm: within their bound of the real ones."""

from typing import Any

import numpy as np
import pytest

from daedal.compiler.integer.norms import NormParameters, error_bound, norm
from daedal.compiler.integer.row_functions import (
    BIT_TABLE,
    bit_steps,
    count_above,
    half_thresholds,
    minus_leading_zeros,
)

UNBOUNDED = 1 << 30


def integers(rng: np.random.Generator, channels: int, bits: int) -> np.ndarray:
    """Rows of all kinds: normal, over the whole range, extremes, equal, and one outlier."""
    low, high = -(1 << (bits - 1)), 1 << (bits - 1)
    shape = (channels, 6)
    normal = np.clip(np.rint(rng.normal(0, high / 6, shape)), low, high - 1).astype(np.int64)
    wide = rng.integers(low, high, shape)
    extreme = np.where(rng.integers(0, 2, shape), low, high - 1)
    equal = np.repeat(wide[:1], channels, axis=0)
    outlier = rng.integers(-3, 4, shape)
    outlier[0] = high - 1
    return np.concatenate([normal, wide, extreme, equal, outlier], axis=1)


def parameters(gain: Any, bias: Any, **changes: Any) -> NormParameters:
    wanted = {
        "epsilon": 1e-5,
        "scale": 0.01,
        "zero_point": 0,
        "bits": 16,
        "result_scale": 0.03,
        "multiplier_bits": 17,
        "centred": True,
    }
    return NormParameters.of(gain, bias, **(wanted | changes))


def real_norm(
    x: np.ndarray, gain: np.ndarray, bias: np.ndarray, epsilon: float, centred: bool
) -> np.ndarray:
    d = x - x.mean(axis=0) if centred else x
    z = d / np.sqrt((d**2).mean(axis=0) + epsilon)
    return np.asarray(gain[:, None] * z + bias[:, None])


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("seed", range(6))
def test_error_is_within_the_bound(bits: int, centred: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for channels in (1, 2, 16, 50, 64, 384, 1000):
        scale = float(np.exp(rng.uniform(np.log(1e-6), np.log(0.1))))
        zero_point = int(rng.integers(-128, 128)) if bits == 8 else 0
        epsilon = float(rng.choice([0, 1e-12, 1e-5]))
        gain = rng.uniform(0.3, 2, channels) * rng.choice([-1, 1], channels)
        bias = rng.normal(0, 1, channels)
        x = integers(rng, channels, bits)
        found = parameters(
            gain,
            bias,
            epsilon=epsilon,
            scale=scale,
            zero_point=zero_point,
            bits=bits,
            centred=centred,
        )
        y = norm(x, found.constants, found.signs[:, None], found.params, 5, -UNBOUNDED, UNBOUNDED)
        # Rows without any deviation have no norm without an epsilon.
        safe = max(epsilon, 1e-300)
        real = real_norm((x - zero_point) * scale, gain, bias, safe, centred) / 0.03 + 5
        bound = error_bound(x, found.constants, gain, safe, scale, 0.03)
        assert (np.abs(y - real) <= bound).all(), (seed, channels, scale, epsilon)


@pytest.mark.parametrize(("deviation", "most"), [(5000, 0.65), (300, 0.85)])
def test_error_is_small_for_residual_streams(deviation: int, most: float) -> None:
    """Sigma is a sixth of the range, or a hundredth of it because of outliers elsewhere."""
    rng = np.random.default_rng(deviation)
    gain, scale = np.ones(384), 1e-3
    found = parameters(gain, 0 * gain, scale=scale)
    x = np.rint(rng.normal(0, deviation, (384, 100))).astype(np.int64)
    y = norm(x, found.constants, None, found.params, 0, -UNBOUNDED, UNBOUNDED)
    real = real_norm(x * scale, gain, 0 * gain, 1e-5, True) / 0.03
    assert np.abs(y - real).max() < most


@pytest.mark.parametrize("least", [1, 255, 40000, (1 << 17) - 1])
def test_thresholds_count_half_the_leading_zeros(least: int) -> None:
    """Also next to powers of two, where leading zeros are those of a rounded number."""
    powers = 1 << np.arange(31)
    near = (powers[:, None] + np.arange(-10000, 10000)).ravel()
    rng = np.random.default_rng(least)
    x = np.concatenate([near, rng.integers(0, 1 << 30, 10000)])
    x = x[(x >= least) & (x < 1 << 30)]
    thresholds = [item for item in half_thresholds(30) if item > least]
    half = minus_leading_zeros(x, bit_steps(30, least), BIT_TABLE) >> 1
    np.testing.assert_array_equal(count_above(x, thresholds), half)


def test_thresholds_are_powers_of_two_or_little_less() -> None:
    powers = 1 << np.arange(1, 30, 2)
    found = np.array(half_thresholds(30))
    assert ((found <= powers) & (found >= powers * (1 - 2.0**-16))).all()
    constants = parameters([1.0], [0.0], epsilon=1e-3).constants
    assert constants.thresholds == tuple(found[found > constants.epsilon])


@pytest.mark.parametrize("small", [0.0, 1e-6, 1e-3, 0.03])
def test_small_gains_with_large_biases(small: float) -> None:
    rng = np.random.default_rng(3)
    gain, bias = np.ones(64), np.zeros(64)
    gain[::7], bias[::7] = small, 3.0
    x = np.rint(rng.normal(0, 4000, (64, 50))).astype(np.int64)
    found = parameters(gain, bias)
    y = norm(x, found.constants, None, found.params, 0, -UNBOUNDED, UNBOUNDED)
    real = real_norm(x * 0.01, gain, bias, 1e-5, True) / 0.03
    assert np.abs(y - real).max() < 1.5
    assert np.abs(found.params[:, 0]).max() < 1 << 31


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gain": []}, "a norm must have 1 to 16384 channels, not 0"),
        ({"gain": [np.nan]}, "gain and bias of a norm must be finite"),
        ({"epsilon": -1.0}, "epsilon of a norm must be 0 or more, not -1.0"),
        ({"scale": 0.0}, "the scale of a norm's operand must be positive, not 0.0"),
        ({"result_scale": -1.0}, "the scale of a norm's result must be positive, not -1.0"),
    ],
)
def test_refuses_what_it_cannot_hold(changes: dict[str, Any], message: str) -> None:
    gain = changes.pop("gain", [1.0])
    with pytest.raises(ValueError, match=message):
        parameters(gain, np.zeros(len(gain)), **changes)
