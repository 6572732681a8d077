"""The searches with which the tuner's is compared."""

import itertools
from functools import partial

import numpy as np
import pytest

from bench.tuning.searches.annealing import Annealing, step
from bench.tuning.searches.exhaustive import Exhaustive
from bench.tuning.searches.random_search import Random
from daedal.compiler.tune.candidates import Candidates
from daedal.compiler.tune.cost_model import Analytic, Boosted
from daedal.compiler.tune.search import NumberedSearch
from tests.support.tuning_spaces import Rugged, Small, proposals

SMALL = Small()
RUGGED = Rugged()


def boosted_annealing(space, *, seed: int) -> Annealing:
    pytest.importorskip("xgboost", reason="xgboost is missing; install daedal[tune]")
    return Annealing(space, seed=seed, model=Boosted(seed=seed))


@pytest.mark.parametrize("make", [Exhaustive, Random, Annealing, boosted_annealing])
def test_equal_seeds_give_equal_proposals(make):
    first, second = (proposals(make(RUGGED, seed=5), RUGGED, 5) for _ in range(2))
    assert first == second
    assert len(set(itertools.chain(*first))) == 80


@pytest.mark.parametrize("make", [Random, Annealing])
def test_other_seeds_give_other_proposals(make):
    first, second = (proposals(make(RUGGED, seed=seed), RUGGED, 3) for seed in (1, 2))
    assert first != second


def test_exhaustive_follows_the_estimate():
    found = [config for (config,) in proposals(Exhaustive(SMALL), SMALL, 100, 1)]
    estimates = SMALL.cycles(SMALL.table(found)).tolist()
    assert estimates == sorted(estimates) and found[0] == SMALL.default


def test_steps_lead_to_all_neighbours_and_nowhere_else(rng):
    candidates = Candidates(RUGGED)
    for row in rng.integers(len(candidates), size=20):
        reached = np.unique(step(candidates, rng, np.full(400, row)))
        distances = np.abs(candidates.positions - candidates.positions[row]).sum(axis=1)
        assert set(reached) - {row} == set(np.flatnonzero(distances == 1))


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
