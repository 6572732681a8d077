"""Cost models: the estimate, what is learned from measurements, determinism, speed, no XGBoost."""

import importlib.util
import sys
import time

import numpy as np
import pytest

from daedal.common.errors import ToolError
from daedal.compiler.tune.cost_model import ESTIMATE, Analytic, Boosted, feature_columns
from tests.support.tuning_spaces import Rugged

SPACE = Rugged()
TABLE = SPACE.all()
FEATURES = feature_columns(SPACE, TABLE)
CYCLES = SPACE.true_cycles(TABLE).astype(float)

needs_xgboost = pytest.mark.skipif(
    importlib.util.find_spec("xgboost") is None,
    reason="xgboost is missing; install daedal[tune]",
)


def pick(rows):
    return {name: column[rows] for name, column in FEATURES.items()}


def share_in_order(scores, cycles, rng) -> float:
    """Share of random pairs whose scores are ordered as their cycles."""
    first, second = rng.integers(len(scores), size=(2, 5000))
    differs = cycles[first] != cycles[second]
    agree = (scores[first] < scores[second]) == (cycles[first] < cycles[second])
    return float(agree[differs].mean())


def test_the_estimate_is_a_feature_and_the_analytic_score():
    assert set(FEATURES) == {*SPACE.features(TABLE), ESTIMATE}
    model = Analytic()
    model.fit(FEATURES, CYCLES)
    assert (model.predict(FEATURES) == SPACE.cycles(TABLE)).all()


@needs_xgboost
def test_a_model_without_measurements_orders_as_the_estimate():
    model = Boosted()
    model.fit(pick(np.array([3])), CYCLES[[3]])
    order = np.argsort(FEATURES[ESTIMATE], kind="stable")
    assert (np.diff(model.predict(FEATURES)[order]) >= 0).all()


@needs_xgboost
@pytest.mark.parametrize("ranks", [False, True])
def test_a_fitted_model_orders_better_than_the_estimate(rng, ranks):
    known = rng.permutation(len(CYCLES))[:200]
    model = Boosted(ranks=ranks)
    model.fit(pick(known), CYCLES[known])
    learned = share_in_order(model.predict(FEATURES), CYCLES, np.random.default_rng(1))
    analytic = share_in_order(FEATURES[ESTIMATE], CYCLES, np.random.default_rng(1))
    assert learned > analytic + 0.03 and learned > 0.9


@needs_xgboost
def test_equal_seeds_and_measurements_give_equal_scores(rng):
    known = rng.permutation(len(CYCLES))[:100]
    scores = []
    for _ in range(2):
        model = Boosted(seed=4)
        model.fit(pick(known[::2]), CYCLES[known[::2]])
        model.fit(pick(known), CYCLES[known])
        scores.append(model.predict(FEATURES))
    assert (scores[0] == scores[1]).all() and np.isfinite(scores[0]).all()


@needs_xgboost
def test_equal_cycles_are_learned():
    model = Boosted()
    model.fit(pick(np.arange(10)), np.full(10, 500.0))
    assert np.ptp(model.predict(FEATURES)) < 1e-3


@needs_xgboost
def test_a_thousand_predictions_take_less_than_a_tenth_of_a_millisecond_each(rng):
    known = rng.permutation(len(CYCLES))[:500]
    model = Boosted()
    model.fit(pick(known), CYCLES[known])
    thousand = pick(np.arange(1000))
    times = []
    for _ in range(5):
        start = time.process_time()
        model.predict(thousand)
        times.append(time.process_time() - start)
    assert min(times) / 1000 < 1e-4


def test_a_missing_xgboost_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(ToolError, match=r"needs xgboost, which is missing; install daedal\[tune\]"):
        Boosted()
