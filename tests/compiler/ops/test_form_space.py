"""`FormSpace`: the configurations of several forms as one space."""

import re

import numpy as np
import pytest

from daedal.common.errors import ScheduleError
from daedal.compiler.ops.accelerator.form_space import FormSpace
from daedal.compiler.ops.accelerator.layer_space import LayerSpace
from daedal.compiler.ops.space import Config
from daedal.isa.memory_model import PRESETS
from tests.support.tuning_spaces import Small


class SmallForm(Small, LayerSpace):
    """One form of a layer."""


class Large(SmallForm):
    """Fewer heights, and tiles of up to 20 elements; twice the cycles."""

    @property
    def knobs(self):
        return {"height": (4, 16), "width": (1, 3, 5)}

    def fits(self, table):
        return table["height"] * table["width"] <= 20

    def cycles(self, table):
        return 2 * super().cycles(table)

    def bound(self, table, memory):
        return self.cycles(table) / memory.read_latency_cycles

    def features(self, table):
        return {"height": table["height"].astype(float)}


SMALL, LARGE = SmallForm(), Large()
BOTH = FormSpace("form", [SMALL, LARGE], usual=1)
LARGE_ONE = Config.of(form=1, height=4, width=5)


def test_it_has_the_configurations_of_all_forms():
    found = [BOTH.split(config) for config in BOTH.enumerate()]
    assert found == [(0, item) for item in SMALL.enumerate()] + [
        (1, item) for item in LARGE.enumerate()
    ]
    assert BOTH.knobs == {"form": [0, 1], "height": [16, 8, 4, 2, 1], "width": [5, 3, 1]}


def test_each_form_decides_what_fits_and_costs():
    table = BOTH.table([Config.of(form=f, height=h, width=5) for f in (0, 1) for h in (2, 4, 16)])
    # A height that the form does not have, and too many elements.
    assert BOTH.fits(table).tolist() == [True, False, False, False, True, False]
    rows = {knob: column[[0, 4]] for knob, column in table.items()}
    expected = [
        SMALL.cycles(SMALL.table([Config.of(height=2, width=5)])),
        LARGE.cycles(LARGE.table([Config.of(height=4, width=5)])),
    ]
    np.testing.assert_array_equal(BOTH.cycles(rows), np.concatenate(expected))
    memory = PRESETS["ddr"]
    bounds = [
        0.0,
        expected[1][0] / memory.read_latency_cycles,
    ]  # nothing is proved of the first form
    np.testing.assert_array_equal(BOTH.bound(rows, memory), bounds)
    features = {name: column.tolist() for name, column in BOTH.features(rows).items()}
    assert features == {"form": [0, 1], "area": [10, 0], "height": [0, 4]}
    # The names do not depend on the rows: models are fitted to some and asked about others.
    assert list(BOTH.features(BOTH.table([LARGE_ONE]))) == ["form", "area", "height"]


def test_the_default_is_that_of_the_usual_form():
    assert BOTH.default == Config((("form", 1), *LARGE.default.values))


def test_samples_fit(rng):
    assert set(BOTH.sample(rng, 100)) == set(BOTH.enumerate())


def test_a_configuration_of_another_form_is_refused():
    message = "knob 'form' must be one of 0, 1, not 2"
    with pytest.raises(ScheduleError, match=re.escape(message)):
        BOTH.table([Config.of(form=2, height=4, width=1)])
