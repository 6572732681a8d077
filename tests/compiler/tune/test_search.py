"""The searches: each configuration once, exhaustion, determinism, stop rules, and their results."""

import itertools
import math
import re
from functools import partial

import numpy as np
import pytest

from daedal.common.errors import ScheduleError, TuningError
from daedal.compiler.ops.space import Config
from daedal.compiler.tune.annealing import Annealing
from daedal.compiler.tune.candidates import Candidates
from daedal.compiler.tune.cost_model import Analytic, Boosted
from daedal.compiler.tune.exhaustive import Exhaustive
from daedal.compiler.tune.genetic import Genetic
from daedal.compiler.tune.random_search import Random
from daedal.compiler.tune.search import NumberedSearch, StopRule
from tests.support.tuning_spaces import Rugged, Small

SMALL = Small()
RUGGED = Rugged()

SEARCHES = {
    "exhaustive": Exhaustive,
    "random": Random,
    "genetic": Genetic,
    "annealing": Annealing,
}
every_search = pytest.mark.parametrize("make", SEARCHES.values(), ids=SEARCHES)


def boosted_annealing(space, *, seed: int) -> Annealing:
    pytest.importorskip("xgboost", reason="xgboost is missing; install daedal[tune]")
    return Annealing(space, seed=seed, model=Boosted(seed=seed))


def proposals(search, space, batches: int, count: int = 16) -> list[list[Config]]:
    """Batches up to the end of the search, each measured."""
    found = []
    for _ in range(batches):
        configs = search.propose(count)
        if not configs:
            break
        search.observe(configs, space.measure(configs))
        found.append(configs)
    return found


@every_search
@pytest.mark.parametrize("count", [1, 4, 100])
def test_every_configuration_is_proposed_once_and_then_the_search_ends(make, count):
    search = make(SMALL, seed=1)
    batches = proposals(search, SMALL, 100, count)
    found = list(itertools.chain(*batches))
    assert len(found) == 9 and set(found) == set(SMALL.enumerate())
    assert all(1 <= len(batch) <= count for batch in batches)
    assert search.propose(count) == [] == search.propose(count)


@pytest.mark.parametrize("make", [*SEARCHES.values(), boosted_annealing])
def test_equal_seeds_give_equal_proposals(make):
    first, second = (proposals(make(RUGGED, seed=5), RUGGED, 5) for _ in range(2))
    assert first == second
    assert len(set(itertools.chain(*first))) == 80


@pytest.mark.parametrize("make", [Random, Genetic, Annealing])
def test_other_seeds_give_other_proposals(make):
    first, second = (proposals(make(RUGGED, seed=seed), RUGGED, 3) for seed in (1, 2))
    assert first != second


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


def test_exhaustive_follows_the_estimate():
    found = [config for (config,) in proposals(Exhaustive(SMALL), SMALL, 100, 1)]
    estimates = SMALL.cycles(SMALL.table(found)).tolist()
    assert estimates == sorted(estimates) and found[0] == SMALL.default


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


def test_steps_lead_to_all_neighbours_and_nowhere_else(rng):
    candidates = Candidates(RUGGED)
    for row in rng.integers(len(candidates), size=20):
        rows = np.full(400, row)
        reached = set(candidates.configs(np.unique(candidates.step(rng, rows))))
        (config,) = candidates.configs(rows[:1])
        assert reached - {config} == set(RUGGED.neighbours(config))


def test_rows_and_configurations_are_the_same(rng):
    candidates = Candidates(RUGGED)
    rows = rng.permutation(len(candidates))[:50]
    assert candidates.rows(candidates.configs(rows)).tolist() == rows.tolist()
    assert candidates.configs(np.arange(len(candidates))) == list(RUGGED.enumerate())


def test_a_diverse_batch_covers_more_values():
    def num_values(diversity: float) -> int:
        search = Annealing(RUGGED, seed=3, diversity=diversity, random_share=0.0)
        return len({pair for config in search.propose(16) for pair in config.values})

    assert num_values(2.0) > num_values(0.0)


def trials_needed(search: NumberedSearch, limit: int) -> int:
    """Measurements until one is within 1 % of the optimum, at most `limit`."""
    target = 1.01 * RUGGED.true_cycles(RUGGED.all()).min()
    for trials in range(16, limit + 16, 16):
        configs = search.propose(16)
        cycles = RUGGED.measure(configs)
        search.observe(configs, cycles)
        if min(cycles) <= target:
            return trials
    return limit


def sum_needed(make, limit: int) -> int:
    return sum(trials_needed(make(RUGGED, seed=seed), limit) for seed in range(5))


def test_guided_annealing_needs_fewer_measurements_than_the_others():
    limit = 800
    needed = sum_needed(boosted_annealing, limit)
    assert 2 * needed < sum_needed(Random, limit)
    assert needed < sum_needed(partial(Annealing, model=Analytic()), limit)
    assert needed < 5 * limit / 3  # most seeds arrive; the others need all


def test_guided_annealing_learns_what_fails():
    def share_failed(batches: int) -> float:
        search = boosted_annealing(RUGGED, seed=2)
        failed: list[bool] = []
        for _ in range(batches):
            configs = search.propose(16)
            fails = [config["keep"] == 2 for config in configs]
            cycles = zip(fails, RUGGED.measure(configs), strict=True)
            search.observe(configs, [None if fail else value for fail, value in cycles])
            failed += fails
        return sum(failed[-32:]) / 32

    shares = share_failed(2), share_failed(8)
    assert shares[0] > 0.4 and shares[1] < 0.2


def test_a_random_share_of_a_batch_ignores_the_model():
    def estimates(share: float) -> float:
        configs = Annealing(RUGGED, seed=4, random_share=share).propose(32)
        return float(np.median(RUGGED.cycles(RUGGED.table(configs))))

    median = float(np.median(RUGGED.cycles(RUGGED.all())))
    assert estimates(0.0) < 0.7 * median < estimates(1.0)


def test_genetic_search_needs_fewer_measurements_than_random():
    assert sum_needed(Genetic, 800) < sum_needed(Random, 800)
