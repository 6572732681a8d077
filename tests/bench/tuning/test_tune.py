"""`tune`: the best configuration, the history, failures, what is known, and reports."""

import re

import pytest

from bench.tuning.searches.annealing import Annealing
from bench.tuning.searches.exhaustive import Exhaustive
from bench.tuning.searches.random_search import Random
from bench.tuning.searches.tuner import tune
from daedal.common.errors import ScheduleError, TuningError
from daedal.compiler.ops.space import Config
from daedal.compiler.tune.database import Database
from daedal.compiler.tune.record import Record
from daedal.compiler.tune.workload import Workload
from tests.support.tuning_spaces import Rugged, Small

SMALL = Small()
RUGGED = Rugged()


class Counted:
    """Measures, and remembers what was asked; what is in `failing` fails."""

    def __init__(self, space, failing=()) -> None:
        self.space = space
        self.failing = set(failing)
        self.batches: list[list[Config]] = []

    def __call__(self, configs):
        self.batches.append(list(configs))
        cycles = self.space.measure(configs)
        return [None if c in self.failing else v for c, v in zip(configs, cycles, strict=True)]

    @property
    def asked(self) -> list[Config]:
        return [config for batch in self.batches for config in batch]


def test_an_exhausted_space_gives_the_optimum():
    measure = Counted(SMALL)
    found = tune(SMALL, measure, Random, trials=100, seed=3)
    assert found.config == Config.of(height=2, width=5) and found.cycles == 12_000
    assert sorted(map(str, measure.asked)) == sorted(map(str, SMALL.enumerate()))
    assert [trial.config for trial in found.history] == measure.asked


def test_the_default_is_measured_first():
    measure = Counted(RUGGED)
    found = tune(RUGGED, measure, Random, trials=20, seed=3)
    assert measure.asked[0] == RUGGED.default
    assert found.cycles <= RUGGED.measure([RUGGED.default])[0]


def test_trials_are_limited_and_the_history_has_the_best_so_far():
    measure = Counted(RUGGED)
    found = tune(RUGGED, measure, Annealing, trials=40, seed=3, batch=16)
    assert [len(batch) for batch in measure.batches] == [1, 16, 16, 7]
    cycles = [trial.cycles for trial in found.history]
    assert cycles == RUGGED.measure(measure.asked)
    bests = [trial.best_cycles for trial in found.history]
    assert bests == [min(cycles[: end + 1]) for end in range(40)]
    assert found.cycles == min(cycles) == RUGGED.measure([found.config])[0]


def test_equal_seeds_give_equal_results():
    first, second = (tune(RUGGED, RUGGED.measure, Random, trials=30, seed=8) for _ in range(2))
    assert first == second
    assert first != tune(RUGGED, RUGGED.measure, Random, trials=30, seed=9)


def test_failed_candidates_are_recorded_and_not_measured_again():
    best = Config.of(height=2, width=5)
    measure = Counted(SMALL, failing=[best])
    found = tune(SMALL, measure, Exhaustive, trials=100, seed=0, batch=2)
    assert found.history[0].config == best
    assert found.history[0].cycles is None and found.history[0].best_cycles is None
    assert len(measure.asked) == len(set(measure.asked)) == 9
    assert found.config != best and found.cycles == min(
        value for value in SMALL.measure(list(SMALL.enumerate())) if value != 12_000
    )


def test_all_failed_gives_nothing():
    found = tune(SMALL, lambda configs: [None] * len(configs), Random, trials=100, seed=0)
    assert found.config is None and found.cycles is None and len(found.history) == 9


def test_what_is_known_is_not_measured_and_counts():
    known = {config: SMALL.measure([config])[0] for config in list(SMALL.enumerate())[:6]}
    known[SMALL.default] = 7
    measure = Counted(SMALL)
    found = tune(SMALL, measure, Random, trials=100, seed=0, known=known)
    assert not set(measure.asked) & set(known) and len(found.history) == 9 - len(known)
    assert (found.config, found.cycles) == (SMALL.default, 7)
    assert all(trial.best_cycles == 7 for trial in found.history)


def test_reports_fill_a_database_from_which_tuning_goes_on(tmp_path):
    workload = Workload.of("toy", attributes={}, shapes={}, layouts={})
    setting = (workload, "fingerprint", "ddr", "accelerator")

    def run(trials: int):
        with Database(tmp_path / "records.db") as database:

            def report(done):
                database.add(Record(*setting, trial.config, trial.cycles) for trial in done)

            known = database.measured(*setting)
            measure = Counted(RUGGED)
            found = tune(
                RUGGED, measure, Annealing, trials=trials, seed=1, report=report, known=known
            )
            best = database.best(*setting)
            assert (best.config, best.cycles) == (found.config, found.cycles)
            return set(measure.asked)

    first, second = run(20), run(20)
    assert len(first) == len(second) == 20 and not first & second


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"trials": 0}, "trials must be at least 1, not 0"),
        ({"trials": 5, "batch": 0}, "batch must be at least 1, not 0"),
    ],
)
def test_impossible_numbers_are_refused(arguments, message):
    with pytest.raises(TuningError, match=re.escape(message)):
        tune(SMALL, SMALL.measure, Random, seed=0, **arguments)


def test_known_configurations_of_another_space_are_refused():
    with pytest.raises(ScheduleError, match="must have the knobs height, width, not depth"):
        tune(SMALL, SMALL.measure, Random, trials=1, seed=0, known={Config.of(depth=2): 5})


def test_a_space_in_which_nothing_fits_is_refused():
    class Empty(Small):
        def fits(self, table):
            return table["height"] > 8

    with pytest.raises(ScheduleError, match="no schedule of small fits"):
        tune(Empty(), SMALL.measure, Random, trials=1, seed=0)
