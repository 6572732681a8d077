"""`find_optimum`: what bounds exclude is not measured, and a result says what is not known."""

import re

import numpy as np
import pytest

from bench.tuning.searches.exhaustive import find_optimum
from daedal.common.errors import TuningError
from tests.support.tuning_spaces import Rugged

SPACE = Rugged()
TABLE = SPACE.all()
CYCLES = SPACE.true_cycles(TABLE).astype(float)
BOUNDS = 0.95 * CYCLES


def test_the_optimum_is_found_and_certified_with_few_measurements():
    trials = []
    found = find_optimum(SPACE, SPACE.measure, BOUNDS, trials=10_000, report=trials.extend)
    assert found.cycles == CYCLES.min() and found.certified and found.gap == 0
    assert SPACE.measure([found.config]) == [found.cycles]
    assert found.measured == len({trial.config for trial in trials}) == len(trials)
    assert found.measured >= np.count_nonzero(found.cycles > BOUNDS)
    assert found.measured + found.excluded == len(CYCLES)
    assert found.measured < len(CYCLES) / 4


def test_weaker_bounds_need_more_measurements_and_give_the_same():
    weak = find_optimum(SPACE, SPACE.measure, 0.9 * CYCLES, trials=10_000)
    strong = find_optimum(SPACE, SPACE.measure, BOUNDS, trials=10_000)
    assert weak.cycles == strong.cycles and weak.measured > strong.measured
    none = find_optimum(SPACE, SPACE.measure, 0 * CYCLES, trials=10_000)
    assert none.cycles == weak.cycles and none.measured == len(CYCLES) and none.certified


def test_a_budget_leaves_a_gap_that_holds():
    found = find_optimum(SPACE, SPACE.measure, BOUNDS, trials=3, batch=2)
    assert not found.certified and found.measured == 3
    assert found.limit <= CYCLES.min() <= found.cycles
    assert found.gap == found.cycles / found.limit - 1 > 0


def test_what_is_known_is_not_measured_again():
    trials = []
    first = find_optimum(SPACE, SPACE.measure, BOUNDS, trials=20, report=trials.extend)
    known = {trial.config: trial.cycles for trial in trials}
    more = []
    second = find_optimum(SPACE, SPACE.measure, BOUNDS, trials=20, known=known, report=more.extend)
    assert second.measured == 20 + len(more) and not {trial.config for trial in more} & set(known)
    assert second.cycles <= first.cycles
    last = find_optimum(SPACE, SPACE.measure, BOUNDS, trials=0, known=known)
    assert (last.config, last.cycles) == (first.config, first.cycles)


def test_failed_configurations_are_measured_and_not_the_optimum():
    best = SPACE.configs({knob: column[[CYCLES.argmin()]] for knob, column in TABLE.items()})

    def measure(configs):
        return [None if [config] == best else SPACE.measure([config])[0] for config in configs]

    found = find_optimum(SPACE, measure, BOUNDS, trials=10_000)
    assert found.cycles == np.sort(CYCLES)[1] and found.certified


def test_without_measurements_there_is_no_optimum():
    message = "an optimum needs at least one configuration that could be measured"
    for trials, measure in ((0, SPACE.measure), (5, lambda configs: [None] * len(configs))):
        with pytest.raises(TuningError, match=re.escape(message)):
            find_optimum(SPACE, measure, BOUNDS, trials=trials)
