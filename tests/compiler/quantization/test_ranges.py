"""Ranges from histograms, against errors that are computed from the values themselves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daedal.compiler.quantization.calibration.ranges import Histogram, Method, Range, choose_range
from daedal.isa import numerics

finite = st.floats(0, 2.0**100, allow_nan=False, width=32)


def histogram(values: np.ndarray) -> Histogram:
    found = Histogram.empty(min(float(values.min()), 0.0), max(float(values.max()), 0.0))
    for part in np.array_split(values, 3):
        found.add(part)
    return found


def squared_error(values: np.ndarray, chosen: Range) -> float:
    scale, zero_point = chosen.quantization()
    quantized = numerics.quantize(values, scale, zero_point, np.int8)
    return float(np.square(values - numerics.dequantize(quantized, scale, zero_point)).mean())


@given(finite, finite)
def test_zero_is_on_the_grid_and_the_ends_are_in_reach(below: float, above: float) -> None:
    scale, zero_point = Range(-below, above).quantization()
    assert scale > 0 and np.isfinite(scale) and zero_point.dtype == np.int8
    ends = np.array([-128, 127])
    low, high = (ends - int(zero_point)) * np.float64(scale)
    assert low <= 0 <= high
    slack = np.float64(scale) * 0.51
    assert low <= -below + slack and high >= above - slack


def test_all_values_of_a_range_of_all_floats_are_finite() -> None:
    """255 steps between the ends of float32 would be infinite after rounding."""
    largest = float(np.finfo(np.float32).max)
    for low, high in ((-largest, 0.0), (0.0, largest), (-largest, largest)):
        scale, zero_point = Range(low, high).quantization()
        steps = np.arange(-128, 128, dtype=np.float32) - np.float32(zero_point)
        assert np.isfinite(steps * scale).all()


def test_ranges_join_to_what_holds_both() -> None:
    assert Range(-1.0, 2.0).join(Range(-3.0, 1.0)) == Range(-3.0, 2.0)


@pytest.mark.parametrize("shape", ["normal", "laplace", "outliers", "relu", "negative"])
def test_mse_is_nearly_the_best_of_all_clipped_ranges(rng: np.random.Generator, shape: str) -> None:
    values = {
        "normal": rng.normal(0, 1, 20000),
        "laplace": rng.laplace(0.3, 1, 20000),
        "outliers": np.concatenate([rng.normal(0, 1, 20000), [60.0]]),
        "relu": np.maximum(rng.normal(0, 1, 20000), 0),
        "negative": -rng.exponential(1, 20000),
    }[shape]
    chosen = choose_range(histogram(values), Method.MSE)
    low, high = min(values.min(), 0), max(values.max(), 0)
    fractions = np.linspace(0.02, 1, 50)
    best = min(
        squared_error(values, Range(low * first, high * last))
        for first in (fractions if low < 0 else [0.0])
        for last in (fractions if high > 0 else [0.0])
    )
    assert squared_error(values, chosen) <= 1.06 * best
    assert low <= chosen.low <= 0 <= chosen.high <= high


def test_percentile_leaves_out_the_outermost(rng: np.random.Generator) -> None:
    values = np.concatenate([rng.uniform(-1, 2, 100_000), [-50.0, 90.0]])
    chosen = choose_range(histogram(values), Method.PERCENTILE)
    width = 140 / 2048
    assert -1 - width <= chosen.low <= -1 + width and 2 - width <= chosen.high <= 2 + width


def test_percentile_keeps_the_bins_that_it_reaches() -> None:
    """Bounds are the outer edges of the first and of the last bin beyond the hundredth of a
    percent."""
    found = Histogram.empty(-8.0, 8.0)
    found.counts[[2, 100, 900, 1500, 2040]] = [9, 200_000, 1, 100_000, 9]
    chosen = choose_range(found, Method.PERCENTILE)
    assert chosen == Range(float(found.edges[100]), float(found.edges[1501]))


@pytest.mark.parametrize("method", list(Method))
def test_zeros_alone_have_an_empty_range(method: Method) -> None:
    chosen = choose_range(histogram(np.zeros(9)), method)
    assert chosen == Range(0.0, 0.0)
    scale, zero_point = chosen.quantization()
    assert scale > 0 and zero_point == -128
