"""`Space` and `Config`: enumeration, samples, neighbours, the default, and bad configurations."""

import re

import numpy as np
import pytest

from daedal.common.errors import ScheduleError
from daedal.compiler.ops.space import Config, Space, Table


class Rectangles(Space):
    """Tiles of at most 12 elements; the larger, the fewer cycles, and tall ones cost more."""

    def __init__(self, limit: int = 12) -> None:
        self._limit = limit

    @property
    def knobs(self):
        return {"height": (1, 2, 4, 8), "width": (1, 3, 5)}

    def fits(self, table: Table):
        return table["height"] * table["width"] <= self._limit

    def cycles(self, table: Table):
        return 100.0 / (table["height"] * table["width"]) + table["height"]

    def features(self, table: Table):
        return {"area": (table["height"] * table["width"]).astype(float)}

    def __str__(self) -> str:
        return "rectangles"


SPACE = Rectangles()


def test_every_configuration_that_fits_is_enumerated_once():
    found = [(config["height"], config["width"]) for config in SPACE.enumerate()]
    assert found == [(h, w) for h in (1, 2, 4, 8) for w in (1, 3, 5) if h * w <= 12]
    assert SPACE.size == 12 and len(found) == 9


def test_the_default_has_the_fewest_estimated_cycles():
    costs = {config: 100 / (config["height"] * config["width"]) for config in SPACE.enumerate()}
    best = min(costs, key=lambda config: costs[config] + config["height"])
    assert SPACE.default == best == Config.of(height=2, width=5)


def test_samples_are_different_and_fit(rng):
    found = SPACE.sample(rng, 5)
    assert len(set(found)) == 5 and set(found) <= set(SPACE.enumerate())
    assert set(SPACE.sample(rng, 100)) == set(SPACE.enumerate())


def test_samples_depend_on_the_seed_alone():
    first, second = (SPACE.sample(np.random.default_rng(3), 4) for _ in range(2))
    assert first == second


def test_configurations_survive_json():
    for config in SPACE.enumerate():
        assert Config.from_json(config.to_json()) == config


def test_tables_and_configurations_are_the_same():
    configs = list(SPACE.enumerate())
    assert SPACE.configs(SPACE.table(configs)) == configs


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (Config.of(height=1), "must have the knobs height, width, not height"),
        (Config.of(height=3, width=1), "knob 'height' must be one of 1, 2, 4, 8, not 3"),
    ],
)
def test_a_configuration_of_another_space_is_refused(config, message):
    with pytest.raises(ScheduleError, match=re.escape(message)):
        SPACE.table([config])
    with pytest.raises(ScheduleError, match=re.escape(message)):
        SPACE.check(config)


@pytest.mark.parametrize("data", [None, 3, [1], {"height": 1.5}, {"height": True}, {1: 2}])
def test_anything_but_integers_is_no_configuration(data):
    with pytest.raises(ScheduleError, match="an object with an integer for each knob"):
        Config.from_json(data)


def test_a_space_in_which_nothing_fits_has_no_default():
    with pytest.raises(ScheduleError, match="no schedule of rectangles fits"):
        _ = Rectangles(limit=0).default
    assert list(Rectangles(limit=0).enumerate()) == []
