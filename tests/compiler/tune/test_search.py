"""The searches: each configuration once, exhaustion, determinism, stop rules, and their results."""

import itertools
import math
import re

import numpy as np
import pytest

from bench.tuning.searches.annealing import Annealing
from bench.tuning.searches.exhaustive import Exhaustive
from bench.tuning.searches.random_search import Random
from daedal.common.errors import ScheduleError, TuningError
from daedal.compiler.ops.space import Config
from daedal.compiler.tune.candidates import Candidates
from daedal.compiler.tune.search import StopRule
from tests.support.tuning_spaces import Rugged, Small, proposals

SMALL = Small()
RUGGED = Rugged()

SEARCHES = {"exhaustive": Exhaustive, "random": Random, "annealing": Annealing}
every_search = pytest.mark.parametrize("make", SEARCHES.values(), ids=SEARCHES)


@every_search
@pytest.mark.parametrize("count", [1, 4, 100])
def test_every_configuration_is_proposed_once_and_then_the_search_ends(make, count):
    search = make(SMALL, seed=1)
    batches = proposals(search, SMALL, 100, count)
    found = list(itertools.chain(*batches))
    assert len(found) == 9 and set(found) == set(SMALL.enumerate())
    assert all(1 <= len(batch) <= count for batch in batches)
    assert search.propose(count) == [] == search.propose(count)


@every_search
def test_what_was_observed_is_not_proposed(make):
    search = make(SMALL, seed=1)
    known = list(SMALL.enumerate())[:4]
    search.observe(known, [10, None, 30, 20])
    found = list(itertools.chain(*proposals(search, SMALL, 100, 2)))
    assert len(found) == 5 and not set(found) & set(known)


@every_search
def test_a_search_survives_failures_only(make):
    search = make(SMALL, seed=1)
    found = []
    while configs := search.propose(2):
        search.observe(configs, [None] * len(configs))
        found += configs
    assert set(found) == set(SMALL.enumerate())


@every_search
def test_a_space_in_which_nothing_fits_ends_at_once(make):
    class Empty(Small):
        def fits(self, table):
            return table["height"] > 8

    assert make(Empty(), seed=0).propose(4) == []


@every_search
def test_a_stop_rule_ends_the_search(make):
    search = make(RUGGED, seed=2, stop=StopRule(batches=3, improvement=0.01))
    values = iter([1000, 900, 895, 894, 893, 1])
    batches = 0
    while configs := search.propose(1):
        search.observe(configs, [next(values)])
        batches += 1
    assert batches == 5  # 893 is less than 1 % below 900, three batches before


def test_a_stop_rule_waits_for_a_first_measurement():
    rule = StopRule(batches=2)
    assert not rule.holds([]) and not rule.holds([math.inf] * 9)
    assert not rule.holds([math.inf, math.inf, 5.0]) and not rule.holds([9.0, 8.0, 7.0])
    assert rule.holds([9.0, 8.0, 8.0, 8.0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batches": 0}, "a stop rule must count at least one batch, not 0"),
        ({"batches": 1, "improvement": 1.0}, "must be a share from 0 to 1, not 1.0"),
        ({"batches": 1, "improvement": float("nan")}, "must be a share from 0 to 1, not nan"),
    ],
)
def test_impossible_stop_rules_are_refused(arguments, message):
    with pytest.raises(TuningError, match=re.escape(message)):
        StopRule(**arguments)


def test_observing_another_space_is_refused():
    search = Random(SMALL, seed=0)
    with pytest.raises(ScheduleError, match="must have the knobs height, width, not depth"):
        search.observe([Config.of(depth=1)], [5])
    with pytest.raises(ScheduleError, match="must fit the variant; height=8 width=5 does not"):
        search.observe([Config.of(height=8, width=5)], [5])
    assert len(list(itertools.chain(*proposals(search, SMALL, 100)))) == 9


def test_rows_and_configurations_are_the_same(rng):
    candidates = Candidates(RUGGED)
    rows = rng.permutation(len(candidates))[:50]
    assert candidates.rows(candidates.configs(rows)).tolist() == rows.tolist()
    assert candidates.configs(np.arange(len(candidates))) == list(RUGGED.enumerate())
