"""The integer softmax: within its bound of the real one, for all sizes and scales."""

import numpy as np
import pytest

from daedal.compiler.integer.softmax import MAX_KEYS, Softmax, error_bound, softmax
from daedal.isa.numerics import quantize_multiplier

UNBOUNDED = 1 << 30


def integers(rng: np.random.Generator, keys: int, bits: int) -> np.ndarray:
    """Rows of all kinds: over the whole range, narrow, equal, and of the two extremes."""
    low, high = -(1 << (bits - 1)), 1 << (bits - 1)
    wide = rng.integers(low, high, (keys, 8))
    narrow = (wide * rng.uniform(0, 1) ** 3).astype(np.int64)
    equal = np.repeat(wide[:1], keys, axis=0)
    extreme = np.where(rng.integers(0, 2, (keys, 8)), low, high - 1)
    return np.concatenate([wide, narrow, equal, extreme], axis=1)


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("seed", range(8))
def test_error_is_within_the_bound(bits: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for keys in (1, 2, 15, 50, 128, 255, 256, 257, 600):
        scale = float(np.exp(rng.uniform(np.log(1e-6), 0)))
        result_scale = float(rng.choice([1 / 255, 1 / 256, 1 / 127, 1 / 1000]))
        x = integers(rng, keys, bits)
        constants = Softmax.of(keys, scale, bits, 17)
        params = (0, *quantize_multiplier(Softmax.result_ratio(result_scale), 17))
        y = softmax(x, constants, params, -128, -UNBOUNDED, UNBOUNDED)
        shifted = (x - x.max(axis=0)) * scale
        real = np.exp(shifted) / np.exp(shifted).sum(axis=0)
        errors = np.abs(y + 128 - real / result_scale)
        bound = error_bound(real, keys, scale, bits, result_scale)
        assert (errors <= bound).all(), (seed, keys, scale, result_scale)


@pytest.mark.parametrize(("bits", "most"), [(8, 0.8), (16, 2.0)])
def test_error_is_small_for_scores_of_attention(bits: int, most: float) -> None:
    rng = np.random.default_rng(bits)
    scale = 20 / (1 << (bits - 1))
    x = np.rint(rng.normal(0, 3, (128, 500)) / scale).astype(np.int64)
    constants = Softmax.of(128, scale, bits, 17)
    params = (0, *quantize_multiplier(Softmax.result_ratio(1 / 256), 17))
    y = softmax(x, constants, params, 0, -UNBOUNDED, UNBOUNDED)
    shifted = (x - x.max(axis=0)) * scale
    real = np.exp(shifted) / np.exp(shifted).sum(axis=0)
    assert np.abs(y - 256 * real).max() < most


def test_longest_rows_do_not_overflow() -> None:
    x = np.zeros((MAX_KEYS, 1), dtype=np.int64)
    constants = Softmax.of(MAX_KEYS, 0.1, 16, 17)
    params = (0, *quantize_multiplier(Softmax.result_ratio(1 / MAX_KEYS), 17))
    y = softmax(x, constants, params, 0, -UNBOUNDED, UNBOUNDED)
    assert np.abs(y - 1).max() <= 1


@pytest.mark.parametrize(
    ("keys", "scale", "message"),
    [
        (0, 0.1, "a softmax must have 1 to 65535 elements in a row, not 0"),
        (65536, 0.1, "a softmax must have 1 to 65535 elements in a row, not 65536"),
        (4, 0.0, "the scale of a softmax's operand must be positive, not 0.0"),
        (4, float("inf"), "the scale of a softmax's operand must be positive, not inf"),
    ],
)
def test_refuses_what_it_cannot_hold(keys: int, scale: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Softmax.of(keys, scale, 8, 17)
