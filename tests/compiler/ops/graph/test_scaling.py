"""Ratios as two float32: all sums around ties are rounded as REQUANTIZE does it."""

import numpy as np
import pytest

from daedal.compiler import te
from daedal.compiler.graph.graph import Array
from daedal.compiler.ops.cpu.schedule import schedule_map
from daedal.compiler.ops.graph.scaling import SplitRatios, split_ratios
from daedal.isa.numerics import requantize
from tests.support.machine_code import run_machine_code


def rows_of(ratios: Array, biases: Array, bits: int = 30) -> Array:
    """Parameters with multipliers of so many bits."""
    fraction, exponent = np.frexp(ratios)
    multipliers = np.rint(np.ldexp(fraction, bits)).astype(np.int64)
    return np.stack([biases, multipliers, bits - exponent], axis=1)


def sums_at_ties(rows: Array, largest: Array, low: int, high: int) -> Array:
    """For each row the sums before and behind each tie, and the ends: (rows, sums)."""
    ratios = np.ldexp(rows[:, 1].astype(np.float64), -rows[:, 2])[:, None]
    ties = (np.arange(low, high + 2) - 0.5) / ratios - rows[:, :1]
    around = np.concatenate([np.floor(ties) + step for step in (-1, 0, 1, 2)], axis=1)
    limits = largest[:, None].astype(np.float64)
    ends = np.broadcast_to([-1.0, 0.0, 1.0], (len(rows), 3)) * limits
    return np.concatenate([np.clip(around, -limits, limits), ends], axis=1).astype(np.int64)


def check(rows: Array, split: SplitRatios, largest: Array, low: int, high: int) -> None:
    """Compare machine code with the definition for the sums at all ties."""
    sums = sums_at_ties(rows, largest, low, high)
    x = te.placeholder(sums.shape, "int32", "x")
    bias, first, second = (
        te.placeholder((len(rows), 1), kind, name)
        for kind, name in (("int32", "b"), ("float32", "f"), ("float32", "s"))
    )
    y = te.compute(
        sums.shape,
        lambda i, j: te.nearest_product(
            (x[i, j] + bias[i, 0]).astype("float32"), first[i, 0], second[i, 0]
        ),
        "y",
    )
    func = schedule_map(te.create_prim_func([x, bias, first, second], [y], "scaled"), "y")
    given = {"x": sums.astype(np.int32)}
    names = {"b": split.biases, "f": split.first, "s": split.second}
    given |= {name: value.reshape(-1, 1) for name, value in names.items()}
    found = run_machine_code(func, given)["y"].astype(np.int64)
    wanted = requantize(sums, *(rows[:, column, None] for column in range(3)), 0, low, high)
    np.testing.assert_array_equal(found.clip(low, high), wanted)
    if split.is_single:
        whole = (sums + split.biases[:, None]).astype(np.float32).astype(np.float64)
        single = np.rint(whole * split.first[:, None].astype(np.float64))
        np.testing.assert_array_equal(single.clip(low, high), wanted)


@pytest.mark.parametrize("scale", [0.3, 0.02, 2e-3, 1e-4])
@pytest.mark.parametrize(("low", "high"), [(-128, 127), (0, 255), (-3, 40)])
def test_sums_at_ties(scale: float, low: int, high: int) -> None:
    rng = np.random.default_rng(int(1 / scale) + high)
    ratios = scale * rng.uniform(0.5, 1, 24)
    largest = rng.integers(200, 2_000_000, 24)
    rows = rows_of(ratios, rng.integers(-3000, 3000, 24))
    fits = [
        row for row in range(24) if split_ratios(rows[[row]], largest[[row]], low, high) is not None
    ]
    assert len(fits) >= 20  # few have sums that are too close to ties on both sides
    split = split_ratios(rows[fits], largest[fits], low, high)
    assert split is not None
    check(rows[fits], split, largest[fits], low, high)


@pytest.mark.parametrize("ratio", [1.0, 0.5, 0.25 + 0.125, 2.0**-9])
def test_ratios_of_few_bits_have_ties(ratio: float) -> None:
    rows = rows_of(np.array([ratio]), np.array([1]))
    largest = np.array([1 << 17])
    split = split_ratios(rows, largest, -128, 127)
    assert split is not None
    assert split.second[0] == 0
    check(rows, split, largest, -128, 127)


def test_one_factor_is_enough_for_some_rows() -> None:
    rng = np.random.default_rng(3)
    rows = rows_of(2e-4 * rng.uniform(0.5, 1, 40), rng.integers(-3000, 3000, 40))
    largest = np.full(40, 2_000_000)
    found = [split_ratios(row[None], largest[:1], -128, 127) for row in rows]
    single = np.array([item is not None and item.is_single for item in found])
    assert 0 < single.sum() < 40
    split = split_ratios(rows[single], largest[single], -128, 127)
    assert split is not None and split.is_single
    check(rows[single], split, largest[single], -128, 127)
    both = split_ratios(rows, largest, -128, 127)
    assert both is None or not both.is_single


def test_products_too_close_to_ties_are_left_to_float64() -> None:
    """Where products lie closely, one ratio in some has two of them next to ties."""
    rng = np.random.default_rng(0)
    rows = rows_of(5e-6 * rng.uniform(0.5, 1, 100), np.zeros(100, np.int64))
    largest = np.full(100, 1 << 23)
    fits = np.array([split_ratios(row[None], largest[:1], -128, 127) is not None for row in rows])
    assert 0 < fits.sum() < 100
    split = split_ratios(rows[fits], largest[fits], -128, 127)
    assert split is not None
    check(rows[fits], split, largest[fits], -128, 127)


def test_channels_with_one_result_have_small_biases() -> None:
    ratios = np.array([1e-9, 3e-9, 2e-9])
    rows = rows_of(ratios, np.array([1_400_000_000, -2_000_000_000, 10]))
    largest = np.array([1 << 20, 1 << 18, 1 << 20])
    split = split_ratios(rows, largest, -128, 127)
    assert split is not None
    assert int(np.abs(split.biases).max()) < 1 << 24
    check(rows, split, largest, -128, 127)


def test_large_products_are_left_to_float64() -> None:
    rows = rows_of(np.array([0.7]), np.array([0]))
    assert split_ratios(rows, np.array([1 << 23]), -128, 127) is None


def test_codes_for_several_levels_share_ratios() -> None:
    """They take a third of the time to make tensor expressions of a network."""
    rows, largest = rows_of(np.array([0.01, 0.02]), np.array([5, 6])), np.array([900, 800])
    first = split_ratios(rows, largest, -128, 127)
    assert first is not None
    assert split_ratios(rows.copy(), largest.copy(), -128, 127) is first
