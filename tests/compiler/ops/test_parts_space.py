"""`PartsSpace`: the schedules of several convolutions in sequence as one space."""

import numpy as np
import pytest

from daedal.common.errors import ScheduleError
from daedal.compiler.ops.accelerator.conv.parts_space import MOST, PartsSpace
from daedal.compiler.ops.accelerator.conv.shape import ConvShape
from daedal.compiler.ops.accelerator.conv.space import ConvSpace
from daedal.compiler.ops.space import Config
from daedal.isa.memory_model import PRESETS
from daedal.isa.variant import load_variant

TINY = load_variant("tiny")


def part(kernel: tuple[int, int], blocks: int = 4) -> ConvSpace:
    shape = ConvShape(1, blocks, blocks, 12, 12, kernel, (1, 1), (1, 1), size=(12, 12))
    return ConvSpace([shape], TINY)


PARTS = [part((1, 1)), part((1, 2)), part((2, 1))]
SPACE = PartsSpace(PARTS)


def test_the_default_has_the_default_of_each_part():
    assert SPACE.split(SPACE.default) == [item.default for item in PARTS]


def test_combinations_are_bounded_and_different(rng):
    table = SPACE.all()
    assert 1 < len(table["part0"]) == SPACE.size <= MOST
    drawn = [tuple(SPACE.split(config)) for config in SPACE.sample(rng, 200)]
    assert len(set(drawn)) == 200


@pytest.mark.parametrize(("count", "length"), [(1, 4096), (4, 8), (9, 2), (16, 1)])
def test_more_parts_have_fewer_schedules(count, length):
    item = part((1, 1), blocks=8)
    several = PartsSpace([item] * count)
    expected = min(length, len(item.ranked()))
    assert {len(values) for values in several.knobs.values()} == {expected}


def test_cycles_are_the_sum_and_the_bound_the_largest(rng):
    memory = PRESETS["ddr"]
    configs = SPACE.sample(rng, 10)
    table = SPACE.table(configs)
    for number, config in enumerate(configs):
        own = [
            (item.cycles(rows)[0], item.bound(rows, memory)[0])
            for item, choice in zip(PARTS, SPACE.split(config), strict=True)
            for rows in [item.table([choice])]
        ]
        cycles, bounds = zip(*own, strict=True)
        assert SPACE.cycles(table)[number] == pytest.approx(sum(cycles))
        assert SPACE.bound(table, memory)[number] == max(bounds) > 0
    np.testing.assert_allclose(SPACE.features(table)["estimate"], SPACE.cycles(table))


def test_a_configuration_of_another_space_is_refused():
    with pytest.raises(ScheduleError, match="must have the knobs part0, part1, part2, not part0"):
        SPACE.split(Config.of(part0=0))
