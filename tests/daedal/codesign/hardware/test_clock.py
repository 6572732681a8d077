"""The clock's model finds what slows designs down, and its interval holds what it says."""

import math

import numpy as np
import pytest

from daedal.codesign.hardware.area import area_model
from daedal.codesign.hardware.clock import ClockModel, _student, clock_model, read_routes
from daedal.common.errors import ExploreError
from daedal.hw.synth.families import Family
from daedal.isa.variant import load_variant


def designs(seed: int, count: int) -> tuple[np.ndarray, list[list[float]]]:
    """Features, and three seeds of each design: its clock falls with two of the features."""
    rng = np.random.default_rng(seed)
    features = rng.uniform(0, 4, (count, 5))
    middle = 5 - 0.1 * features[:, 0] - 0.05 * features[:, 3] + rng.normal(0, 0.03, count)
    return features, [np.exp(each + rng.normal(0, 0.08, 3)).tolist() for each in middle]


def test_unseen_designs_are_predicted() -> None:
    for seed in range(5):
        features, mhz = designs(seed, 60)
        model = ClockModel.fit(Family.ECP5, features[:40], mhz[:40])
        expected = model.mean + (features[40:] - model.center) / model.spread @ model.weights
        errors = expected - np.array([np.log(np.median(each)) for each in mhz[40:]])
        assert np.sqrt(np.mean(errors**2)) < 0.1, seed


@pytest.mark.parametrize("count", [6, 20])
def test_the_interval_holds_nearly_every_seed(count: int) -> None:
    inside = total = 0
    for seed in range(40):
        features, mhz = designs(seed, count + 10)
        model = ClockModel.fit(Family.ECP5, features[:count], mhz[:count])
        scaled = (features[count:] - model.center) / model.spread
        for expected, each in zip(model.mean + scaled @ model.weights, mhz[count:], strict=True):
            inside += int(np.sum(np.abs(np.log(each) - expected) <= model.reach))
            total += len(each)
    assert 0.9 <= inside / total <= 0.995, inside / total


def test_fewer_rows_give_a_wider_interval() -> None:
    widths = [_student(degrees) for degrees in (3, 5, 10, 30, 1000)]
    # Source: the table of Student's distribution, 97.5 %.
    assert np.allclose(widths, [3.182, 2.571, 2.228, 2.042, 1.962], atol=0.03)


def test_routed_variants_are_within_their_interval() -> None:
    for route in read_routes(Family.ECP5):
        (used,) = area_model(Family.ECP5)([route.variant])
        (clock,) = clock_model(Family.ECP5)([route.variant], [used])
        assert clock.low <= float(np.median(route.mhz)) <= clock.high


def test_a_larger_machine_is_not_faster() -> None:
    base = load_variant("ecp5")
    variants = [base.replace(block_in=size, block_out=size) for size in (8, 16)]
    small, large = clock_model(Family.ECP5)(variants, area_model(Family.ECP5)(variants))
    assert small.mhz >= large.mhz
    assert math.isclose(small.mhz / small.low, small.high / small.mhz)


def test_no_variants_have_no_clocks() -> None:
    assert clock_model(Family.ECP5)([], []) == []


def test_a_family_without_routes_is_refused() -> None:
    with pytest.raises(ExploreError, match="clocks are known of family ecp5, not of xc7"):
        clock_model(Family.XC7)
