"""The search for optima: what it has to measure or exclude, and what it keeps."""

from types import SimpleNamespace

import numpy as np

from bench.tuning import optima
from bench.tuning.optima import NUM_DRAWN, NUM_ESTIMATED, WHOLE, search, wanted
from daedal.compiler.tune.candidates import Candidates
from daedal.compiler.tune.database import Database
from daedal.isa.variant import load_variant
from tests.support.tuning_spaces import Rugged, Small, ToyRunner


class BoundedRugged(Rugged):
    """With bounds below the cycles."""

    def bound(self, table, memory):
        return 0.97 * self.true_cycles(table)


class BoundedSmall(Small):
    """With bounds that exclude nothing."""

    def bound(self, table, memory):
        return np.zeros(len(table["height"]))


def searched(space, folder, monkeypatch):
    """The row after a search that began with the default, and what was measured."""
    runner = ToyRunner(space)
    toy = SimpleNamespace(space=space, variant=load_variant("tiny"), runner=runner)
    monkeypatch.setattr(optima, "WORKLOADS", {"toy": toy})
    row = {"config": space.default.to_json(), "cycles": runner.measure(space.default), "kept": 1}
    with Database(folder / "optima.db") as database:
        return search("toy", row, database, SimpleNamespace(map=map)), runner.measured


def test_small_spaces_are_wanted_whole():
    assert wanted(Candidates(Small())).all()


def test_of_large_spaces_draws_and_the_lowest_estimates_are_wanted():
    candidates = Candidates(Rugged())
    assert len(candidates) > WHOLE
    chosen = wanted(candidates)
    lowest = np.argsort(candidates.estimates)[:NUM_ESTIMATED]
    assert chosen[lowest].all()
    assert NUM_DRAWN < chosen.sum() <= NUM_DRAWN + NUM_ESTIMATED


def test_a_small_space_is_searched_whole(tmp_path, monkeypatch):
    space = BoundedSmall()
    row, measured = searched(space, tmp_path, monkeypatch)
    everything = space.measure(space.configs(space.all()))
    assert row["cycles"] == min(everything) and row["kept"] == 1
    assert row["searched"]["certified"] and row["searched"]["measured"] == len(everything)
    assert len(set(measured)) == len(everything)


def test_bounds_exclude_what_need_not_be_measured(tmp_path, monkeypatch):
    space = BoundedRugged()
    row, measured = searched(space, tmp_path, monkeypatch)
    cycles = space.true_cycles(space.all())
    chosen = cycles[wanted(Candidates(space))]
    assert row["cycles"] == min(chosen.min(), space.measure([space.default])[0])
    found = row["searched"]
    assert found["measured"] == len(set(measured)) < len(chosen) // 4
    assert found["certified"] == (found["measured"] + found["excluded"] == len(cycles))


def test_a_second_search_measures_only_the_best_again(tmp_path, monkeypatch):
    space = BoundedSmall()
    before, _ = searched(space, tmp_path, monkeypatch)
    after, measured = searched(space, tmp_path, monkeypatch)
    assert after["searched"] == before["searched"] and len(measured) == 2
