"""Walks by moves: what a policy learns from counters, where climbs end, and what is reported."""

import itertools

import numpy as np
import pytest

from bench.tuning.guided_moves import MOST_TRIALS, Both, Run, figures_of, shares_of, summary
from bench.tuning.moves import MovePolicy, Moves, Outcome, Walk
from daedal.compiler.ops.accelerator.layer_space import LayerSpace
from daedal.compiler.tune.candidates import Candidates
from daedal.isa.registers import CLASSES
from daedal.isa.variant import load_variant
from daedal.runtime.layers import LAYER_UNITS
from daedal.tuning.layer_runner import LayerRunner
from tests.support.tuning_layers import small_layer, space
from tests.support.tuning_spaces import Rugged, Small


class Told(LayerSpace):
    """Three knobs with one best value each. Six shares say how far each is below and above it."""

    def __init__(self, best=(4, 4, 4)):
        self.best = dict(zip("abc", best, strict=True))

    @property
    def knobs(self):
        return dict.fromkeys("abc", tuple(range(10)))

    def fits(self, table):
        return np.ones(len(table["a"]), dtype=bool)

    def cycles(self, table):
        return np.ones(len(table["a"]))

    def features(self, table):
        return {}

    def outcome(self, config):
        off = [self.best[knob] - value for knob, value in config.values]
        waits = np.array([max(sign * value, 0) for value in off for sign in (1, -1)])
        return Outcome(100 + waits.sum(), tuple(waits / max(waits.sum(), 1)))


def walked(told, policy, seed, most=400):
    """Measurements until the best is found, and all proposals."""
    walk = Walk(told, seed=seed, policy=policy)
    found = []
    while len(found) < most:
        configs = walk.propose(1)
        outcomes = [told.outcome(config) for config in configs]
        walk.count(configs, [item.shares for item in outcomes])
        walk.observe(configs, [int(item.cycles) for item in outcomes])
        found += configs
        if outcomes[0].cycles == 100:
            return len(found), found
    raise AssertionError("one local optimum, and not found")


def taught(counters):
    """A policy that saw 40 configurations, and their neighbours, of two other spaces."""
    policy = MovePolicy(counters=counters)
    for best in ((1, 6, 3), (8, 2, 5)):
        told = Told(best)
        candidates = Candidates(told)
        moves = Moves(candidates)
        rows = set(np.random.default_rng(0).integers(len(candidates), size=20).tolist())
        rows |= {int(row) for row in moves.targets[list(rows)].ravel() if row >= 0}
        configs = candidates.configs(np.array(sorted(rows)))
        outcomes = map(told.outcome, configs)
        policy.learn_all(moves, dict(zip(sorted(rows), outcomes, strict=True)))
    return policy


def test_a_policy_learns_what_counters_tell_and_needs_fewer_measurements():
    seeds = range(12)
    told = Told((5, 3, 7))
    mean = {
        name: np.mean([walked(told, policy, seed)[0] for seed in seeds])
        for name, policy in {
            "blind": None,
            "learned": taught(counters=True),
            "knobs": taught(counters=False),
        }.items()
    }
    assert mean["learned"] < 0.65 * mean["blind"]
    assert mean["learned"] < 0.8 * mean["knobs"]


def test_probabilities_follow_the_shares():
    policy = taught(counters=True)
    moves = Moves(Candidates(Told()))
    row = 555
    (up,) = (at for at, name in enumerate(moves.names) if name == "b up")
    below = policy.probability(moves, row, up, Outcome(105, (0, 0, 1, 0, 0, 0)))
    above = policy.probability(moves, row, up, Outcome(105, (0, 0, 0, 1, 0, 0)))
    assert below > 0.6 and above < 0.3


def test_a_move_never_seen_is_as_likely_as_all():
    policy = MovePolicy()
    moves = Moves(Candidates(Told()))
    nothing = Outcome(10, (0,) * 6)
    assert policy.probability(moves, 0, 0, nothing) == 0.5
    for after in (5.0, 6.0, 20.0):
        policy.learn(moves, 0, 0, nothing, after)
    assert policy.probability(moves, 0, 2, nothing) == 3 / 5


def test_equal_seeds_give_equal_walks_and_the_policy_given_is_left_alone():
    policy = taught(counters=True)
    first, second, other = (walked(Told((5, 3, 7)), policy, seed)[1] for seed in (3, 3, 4))
    assert first == second != other


@pytest.mark.parametrize("toy", [Small(), Rugged()], ids=str)
def test_moves_lead_to_the_next_value_that_fits_and_back(toy):
    candidates = Candidates(toy)
    moves = Moves(candidates)
    table = toy.all()
    values = np.stack([table[knob] for knob in toy.knobs], axis=1)
    present = set(map(tuple, values.tolist()))
    for move, knob in itertools.product(range(2 * len(toy.knobs)), range(len(toy.knobs))):
        rows = np.flatnonzero(moves.targets[:, move] >= 0)
        changed = values[moves.targets[rows, move], knob] - values[rows, knob]
        if knob != move // 2:
            assert not changed.any()
        else:
            assert (changed > 0).all() if move % 2 == 0 else (changed < 0).all()
            assert (moves.targets[moves.targets[rows, move], move ^ 1] == rows).all()
    if isinstance(toy, Small):
        for row, move in np.argwhere(moves.targets < 0).tolist():
            knob, names = move // 2, list(toy.knobs)
            at = values[row, knob]
            beyond = [
                item
                for item in toy.knobs[names[knob]]
                if (item > at if move % 2 == 0 else item < at)
            ]
            for item in beyond:
                assert (*values[row, :knob], item, *values[row, knob + 1 :]) not in present


@pytest.mark.parametrize("count", [1, 3])
def test_a_walk_proposes_each_once_and_its_climbs_end_at_local_optima(count):
    toy = Rugged()
    walk = Walk(toy, seed=1)
    found = []
    while len(found) < 300:
        configs = walk.propose(count)
        walk.observe(configs, toy.measure(configs))
        found += configs
    assert len(set(found)) == len(found)
    assert len(walk.climbs) >= 3
    ends = {climb.end for climb in walk.climbs if climb.proved}
    assert len(ends) and all(climb.proved for climb in walk.climbs)
    cycles = dict(zip(found, toy.measure(found), strict=True))
    optima = {
        value
        for config, value in cycles.items()
        if all(value <= cycles.get(item, np.inf) for item in toy.neighbours(config))
    }
    assert ends <= optima


def test_a_walk_ends_with_the_space_and_survives_failures():
    walk = Walk(Small(), seed=0)
    found = []
    while configs := walk.propose(2):
        walk.observe(configs, [None] * len(configs))
        found += configs
    assert set(found) == set(Small().enumerate())


def test_both_take_turns():
    class Fixed:
        def __init__(self):
            self.seen = []

        def propose(self, count):
            return [next(item for item in told.enumerate() if item not in self.seen)]

        def observe(self, configs, cycles):
            self.seen += configs

    told = Told((5, 3, 7))
    fixed = Fixed()
    both = Both(fixed, Walk(told, policy=taught(counters=True)))
    for _ in range(6):
        configs = both.propose(1)
        both.count(configs, [told.outcome(item).shares for item in configs])
        both.observe(configs, [int(told.outcome(item).cycles) for item in configs])
    for turn in (1, 3, 5):
        best = min(fixed.seen[:turn], key=lambda item: told.outcome(item).cycles)
        assert fixed.seen[turn] in told.neighbours(best)
    assert fixed.seen[4] not in told.neighbours(fixed.seen[3])


def test_shares_of_each_unit_sum_to_one():
    variant = load_variant("tiny")
    config = space(*small_layer(variant), variant).default
    profile = LayerRunner(*small_layer(variant), variant).profile(config)
    shares = np.array(shares_of(profile)).reshape(len(LAYER_UNITS), len(CLASSES))
    assert np.allclose(shares.sum(axis=1), 1) and (shares >= 0).all()
    assert len(np.unique(shares)) > 4


def test_figures_count_climbs_that_end_away_from_the_optimum():
    class Oracle:
        near = 101.0

    walk = Walk(Told((0, 0, 0)), seed=2)
    while len(walk.climbs) < 2:
        configs = walk.propose(1)
        walk.observe(configs, [int(Told((0, 0, 0)).outcome(item).cycles) for item in configs])
    runs = [
        Run((300.0, 200.0, 101.0), 0.5, tuple(walk.climbs), ()),
        Run((300.0, 200.0), 1.5, (), ()),
    ]
    row = figures_of(Oracle(), runs)
    assert row["needed"] == [3, None] and row["trials"] == (3 + MOST_TRIALS) / 2
    assert row["stuck"] == 0 and len(row["climbs"]) == 2 and row["seconds"] == 1.0
    blind = {**row, "trials": 2 * row["trials"]}
    found = summary({"runs": {"blind": {"x": blind}, "learned": {"x": row}}})
    assert found["learned"]["than_blind"] == pytest.approx(2)
    assert found["learned"]["found"] == 0.5 and found["learned"]["stuck"] == 0
