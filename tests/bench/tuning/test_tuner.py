"""The benchmark of the tuner: what it knows of optima, what it measures, and its bars."""

from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest

from bench.tuning.curves import curves_drawing
from bench.tuning.oracle import Oracle
from bench.tuning.searches.exhaustive import Exhaustive
from bench.tuning.searches.random_search import Random
from bench.tuning.truth import NEAR
from bench.tuning.tuner import ColdTuner, judge, layer_of
from bench.tuning.workloads import WORKLOADS
from daedal.compiler.tune.database import Database
from daedal.isa.variant import load_variant
from tests.support.tuning_spaces import Rugged, ToyRunner


class Bounded(Rugged):
    """With bounds 3 % below the cycles."""

    def bound(self, table, memory):
        return 0.97 * self.true_cycles(table)


SPACE = Bounded()
CYCLES = SPACE.true_cycles(SPACE.all()).astype(float)


@pytest.fixture
def oracle(tmp_path):
    workload = SimpleNamespace(
        space=SPACE, variant=load_variant("tiny"), variant_name="tiny", runner=ToyRunner(SPACE)
    )
    with Database(tmp_path / "truth.db") as truth, Database(tmp_path / "runs.db") as runs:
        found = Oracle(workload, truth, runs)
        (best,) = SPACE.configs(
            {knob: column[[CYCLES.argmin()]] for knob, column in SPACE.all().items()}
        )
        found._cache([best])
        yield found


def test_the_number_of_near_ones_is_bracketed(oracle):
    near = int(np.count_nonzero(NEAR * CYCLES.min() >= CYCLES))
    least, most = oracle.num_near()
    assert least == 1 < near < most == np.count_nonzero(NEAR * CYCLES.min() >= 0.97 * CYCLES)
    fewest, likely, largest = oracle.random_trials()
    assert fewest <= likely <= largest and fewest < (len(CYCLES) + 1) / (near + 1) < largest


def test_the_expected_draws_are_those_of_a_simulation(oracle):
    oracle._cache(SPACE.configs(SPACE.all()))
    fewest, likely, most = oracle.random_trials()
    assert fewest == likely == most
    near = NEAR * CYCLES.min() >= CYCLES
    rng = np.random.default_rng(0)
    draws = [1 + int(np.argmax(rng.permutation(near))) for _ in range(2000)]
    assert abs(np.mean(draws) / likely - 1) < 0.1


def test_what_bounds_exclude_is_measured_only_for_an_exact_search(oracle):
    runner = oracle.workload.runner
    excluded = NEAR * CYCLES.min() < 0.97 * CYCLES
    few = oracle.trials(Random(SPACE, seed=1), batch=16, most=400, exact=False)
    rows = oracle.candidates.rows(runner.measured[1:])
    assert not excluded[rows].any() and len(few) > len(rows)
    all_of = oracle.trials(Random(SPACE, seed=1), batch=16, most=400, exact=True)
    assert len(all_of) == len(few) and len(runner.measured) > len(few)


def test_a_search_ends_with_the_first_near_one(oracle):
    curve = oracle.trials(Exhaustive(SPACE), batch=1, most=5000, exact=False)
    assert curve[-1] <= NEAR * CYCLES.min() < curve[-2] and curve == sorted(curve, reverse=True)


def test_the_cold_tuner_begins_at_random_and_learns(oracle):
    pytest.importorskip("xgboost", reason="xgboost is missing; install daedal[tune]")
    search = ColdTuner(oracle, seed=0)
    medians = []
    for _ in range(4):
        configs = search.propose(64)
        cycles = SPACE.measure(configs)
        search.observe(configs, cycles)
        medians.append(np.median(cycles))
    assert abs(medians[0] / np.median(CYCLES) - 1) < 0.2 and medians[3] < 0.8 * medians[0]


def test_the_bars():
    def found(above, ours, random, unseen):
        methods = {"ours": ours, "random": random, "cold": random}
        row = {name: {"trials": trials, "found": 1.0} for name, trials in methods.items()}
        return {
            "zero": {"a": {"above": above}},
            "search": {"a": row},
            "unseen": {"a": {"above": unseen}},
            "prediction_seconds": 1e-6,
        }

    assert all(judge(found(0.01, 2.0, 20.0, 0.02))["bars"].values())
    failing = judge(found(0.06, 2.0, 19.0, 0.03))["bars"]
    assert [name for name, holds in failing.items() if holds] == ["prediction"]
    # A workload on which this kit's search found none counts, too.
    some = found(0.01, 2.0, 20.0, 0.02)
    some["search"]["b"] = {**some["search"]["a"], "ours": {"trials": 256.0, "found": 0.0}}
    figures = judge(some)
    assert figures["found"] == {"a": 1.0, "b": 0.0}
    assert not any(holds for name, holds in figures["bars"].items() if "against" in name)


def test_the_workloads_cover_the_variants():
    variants = [workload.variant_name for workload in WORKLOADS.values()]
    assert len(WORKLOADS) >= 24
    assert all(variants.count(name) >= 4 for name in ("vta", "ecp5_half", "tiny", "wide"))
    layers = {layer_of(name) for name in WORKLOADS}
    wanted = {f"C{n}" for n in range(2, 12)} | {f"D{n}" for n in range(1, 10)}
    assert wanted <= layers and len(layers - wanted) >= 8


def test_the_curves_are_drawn():
    curves = [[1.4, 1.2, 1.2, 1.0]]
    row = {
        "ours": {"trials": 4.0, "curves": curves},
        "cold": {"trials": 4.0, "curves": curves},
        "random": {"trials": 9.0, "curves": []},
    }
    root = ElementTree.fromstring(curves_drawing({"a & b": row, "c": row, "d": row}))
    texts = [element.text for element in root.iter() if element.tag.endswith("text")]
    assert {"a & b", "c", "d", "ours", "+10%"} <= set(texts)
