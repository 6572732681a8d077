"""Sums of two int8 in float32: all 65,536 are rounded as REQUANTIZE does it."""

import numpy as np
import pytest

from daedal.compiler import te
from daedal.compiler.graph.graph import Array
from daedal.compiler.ops.cpu.schedule import schedule_map
from daedal.compiler.ops.graph.pair_scaling import pair_ratios, scaled_bytes
from daedal.compiler.tir.expr import FloatImm
from daedal.isa.numerics import requantize
from tests.support.machine_code import run_machine_code


def row_of(ratio: float, bias: int) -> Array:
    """[bias, multiplier, shift] with a multiplier of 30 bits."""
    fraction, exponent = np.frexp(ratio)
    return np.array([bias, int(np.rint(np.ldexp(fraction, 30))), 30 - exponent])


@pytest.mark.parametrize("multipliers", [(11_184_811, 16_700_001), (9_999_991, -8_400_003)])
@pytest.mark.parametrize(("low", "high"), [(-128, 127), (0, 255), (-3, 40)])
def test_all_sums(multipliers: tuple[int, int], low: int, high: int) -> None:
    row = row_of(0.83 / multipliers[0], 31_234_567)
    found = pair_ratios(multipliers, row, low, high)
    assert found is not None
    a, b = (item.ravel() for item in np.mgrid[-128:128, -128:128].astype(np.int8))
    x, y = (te.placeholder(a.shape, "int8", name) for name in "xy")
    z = te.compute(
        a.shape,
        lambda i: te.nearest(
            x[i].astype("float32") * FloatImm(found.first, "float32")
            + y[i].astype("float32") * FloatImm(found.second, "float32")
            + FloatImm(found.offset, "float32")
        ),
        "z",
    )
    func = schedule_map(te.create_prim_func([x, y], [z], "added"), "z")
    sums = a.astype(np.int64) * multipliers[0] + b.astype(np.int64) * multipliers[1]
    wanted = requantize(sums, *row, 0, low, high)
    for optimized in (False, True):
        result = run_machine_code(func, {"x": a, "y": b}, optimized=optimized)["z"]
        np.testing.assert_array_equal(result.clip(low, high), wanted)


def test_ties_go_to_even_numbers() -> None:
    row = row_of(2.0**-23, 0)
    found = pair_ratios((1 << 22, 1 << 22), row, -128, 127)
    assert found is not None
    assert (found.first, found.second, found.offset) == (0.5, 0.5, 0.0)


@pytest.mark.parametrize(("low", "high"), [(0, 255), (90, 140)])
def test_all_products_with_weights(low: int, high: int) -> None:
    rng = np.random.default_rng(0)
    weights = rng.integers(-128, 128, 300)
    rows = [
        row_of(ratio, bias)
        for ratio, bias in zip(
            rng.uniform(1e-3, 0.05, 300), rng.integers(-9999, 9999, 300), strict=True
        )
    ]
    parameters = np.stack(rows)
    found = scaled_bytes(weights, parameters, low, high, 131)
    assert found is not None
    values = np.arange(-128, 128)
    sums = values * weights[:, None]
    columns = (parameters[:, column, None] for column in range(3))
    wanted = requantize(sums, *columns, 131, low, high)
    factors, offsets = (item.astype(np.float32)[:, None] for item in found)
    products = np.rint(values.astype(np.float32) * factors + offsets)
    np.testing.assert_array_equal(products.clip(low, high), wanted)


def test_large_products_with_weights_are_sums() -> None:
    assert scaled_bytes(np.array([100]), row_of(2.0, 0)[None], 0, 255) is None


def test_products_that_are_no_int32_are_left_to_float64() -> None:
    assert pair_ratios((1 << 24, 1 << 24), row_of(0.01, 0), -128, 127) is None
