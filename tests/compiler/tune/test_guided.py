"""`Guided`: what it asks its model, and what it tells it."""

import numpy as np

from daedal.compiler.tune.candidates import Rows
from daedal.compiler.tune.cost_model import Reals
from daedal.compiler.tune.guided import Guided
from tests.support.tuning_spaces import Rugged

SPACE = Rugged()
CYCLES = SPACE.true_cycles(SPACE.all()).astype(float)


class Recorder:
    """A model that knows the cycles, and keeps what it is fitted to."""

    def __init__(self) -> None:
        self.fitted: list[tuple[Rows, Reals]] = []

    def fit(self, rows: Rows, cycles: Reals) -> None:
        self.fitted.append((rows, cycles))

    def predict(self, rows: Rows) -> Reals:
        return CYCLES[rows]


def test_the_best_by_the_model_come_first():
    search = Guided(SPACE, Recorder(), diversity=0)
    configs = search.propose(4)
    assert sorted(SPACE.measure(configs)) == sorted(CYCLES)[:4]


def test_of_a_large_space_a_part_is_scored():
    search = Guided(SPACE, Recorder(), diversity=0, most_scored=10, seed=3)
    best = min(SPACE.measure(search.propose(1)))
    assert CYCLES.min() < best <= np.median(CYCLES)


def test_a_failed_candidate_counts_as_twice_the_most_cycles():
    model = Recorder()
    search = Guided(SPACE, model)
    configs = search.propose(3)
    search.observe(configs, [100, None, 300])
    search.propose(1)
    assert model.fitted[-1][1].tolist() == [100, 300, 600]


def test_of_many_measurements_the_fastest_and_a_spread_of_the_others_are_fitted():
    model = Recorder()
    search = Guided(SPACE, model, most_fitted=8)
    rows = np.random.default_rng(1).permutation(len(CYCLES))[:20]
    configs = SPACE.configs({knob: column[rows] for knob, column in SPACE.all().items()})
    search.observe(configs, [int(value) for value in CYCLES[rows]])
    search.propose(1)
    fitted, cycles = model.fitted[-1]
    assert np.array_equal(cycles, CYCLES[fitted])
    order = np.sort(CYCLES[rows])
    assert cycles[:4].tolist() == order[:4].tolist()
    assert cycles[4] == order[4] and cycles[-1] == order[-1] and len(cycles) == 8
