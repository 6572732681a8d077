"""The space of variants: points and variants correspond, rules hold, draws repeat."""

import numpy as np
import pytest

from daedal.codesign.search.variant_space import DEFAULT_PARAMETERS, VariantSpace
from daedal.isa.variant import Variant, load_variant, shipped_variants

SPACE = VariantSpace(load_variant("ecp5"), DEFAULT_PARAMETERS)


def test_a_variant_has_one_point() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        point = SPACE.draw(rng)
        variant = SPACE.variant(point)
        assert variant is not None
        assert SPACE.point(variant) == point
        assert variant == SPACE.base.replace(variant.name, **SPACE.values(point))


@pytest.mark.parametrize("name", ["ecp5", "ecp5_half", "smallest"])
def test_shipped_variants_are_points(name: str) -> None:
    variant = load_variant(name)
    point = SPACE.point(variant)
    assert point is not None
    found = SPACE.variant(point)
    assert found is not None and found.fingerprint == variant.fingerprint


@pytest.mark.parametrize("name", shipped_variants())
def test_every_base_is_a_point_of_the_space_around_it(name: str) -> None:
    base = load_variant(name)
    space = VariantSpace.around(base)
    point = space.point(base)
    assert point is not None and space.variant(point) is not None
    for parameter, values in space.parameters.items():
        assert set(values) >= set(DEFAULT_PARAMETERS[parameter])
        if parameter not in ("multiplier_style", "counters"):
            assert list(values) == sorted(values)


def test_the_space_around_the_default_base_is_the_default_space() -> None:
    assert VariantSpace.around(SPACE.base) == SPACE


def test_variants_outside_have_no_point() -> None:
    base = load_variant("ecp5")
    assert SPACE.point(base.replace(read_bursts=64)) is None  # a value that the space lacks
    assert SPACE.point(base.replace(multiplier_bits=18)) is None  # a parameter that it lacks


def test_points_that_break_a_rule_are_no_variants() -> None:
    values = dict(SPACE.values(SPACE.point(load_variant("ecp5_half")) or ()))
    assert values["block_in"] != values["block_out"]
    broken = tuple(
        list(DEFAULT_PARAMETERS[name]).index(1 if name == "depthwise_taps" else value)
        for name, value in values.items()
    )
    assert SPACE.variant(broken) is None


def test_neighbours_differ_in_one_step() -> None:
    point = SPACE.draw(np.random.default_rng(3))
    found = SPACE.neighbours(point)
    assert found
    for other in found:
        assert isinstance(SPACE.variant(other), Variant)
        assert sum(abs(a - b) for a, b in zip(point, other, strict=True)) == 1


@pytest.mark.parametrize("seed", [0, 1])
def test_draws_repeat(seed: int) -> None:
    first, second = (SPACE.draw(np.random.default_rng(seed)) for _ in range(2))
    assert first == second


def test_other_tuples_are_no_points() -> None:
    point = SPACE.draw(np.random.default_rng(1))
    assert SPACE.has(point)
    for other in ((), point[1:], (*point, 0), (-1, *point[1:]), (99, *point[1:])):
        assert not SPACE.has(other)
