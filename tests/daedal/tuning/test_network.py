"""`tune_network`: faster layers, the same bytes, and an interrupted run that continues."""

from pathlib import Path

import numpy as np
import pytest

import daedal
from daedal.compiler.tune.database import Database
from daedal.isa.errors import TuningError
from daedal.isa.variant import load_variant
from daedal.tuning.network import recorded_configs, tune_network
from tests.compiler.graph.qdq_models import QdqModel

TINY = load_variant("tiny")


@pytest.fixture
def model() -> bytes:
    """Two equal convolutions and another one, 8 and 16 channels on 10 x 10."""
    rng = np.random.default_rng(3)
    net = QdqModel()
    x = net.requantized(net.input("x", (1, 8, 10, 10)), 0.05, 0)
    for ins, outs in ((8, 8), (8, 8), (8, 16)):
        values = rng.integers(-127, 128, (outs, ins, 3, 3)).astype(np.int8)
        y = net.op("Conv", x, net.weights(values, 0.01), pads=[1] * 4)
        x = net.requantized(y, 0.05, 0)
    return net.model(x).SerializeToString()


def test_tuned_layers_are_never_slower_and_give_the_same_bytes(
    model: bytes, tmp_path: Path, rng: np.random.Generator
) -> None:
    pytest.importorskip("xgboost", reason="the extra `tune` is not installed")
    with Database(tmp_path / "records.db") as database:
        results = tune_network(model, TINY, database, trials=24)
        configs = recorded_configs(database, TINY)
    assert sorted(item.count for item in results) == [1, 2]
    assert sum(item.trials for item in results) <= 24
    assert all(item.best_cycles <= item.default_cycles for item in results)
    assert configs == {item.workload.key: item.config for item in results}
    plain = daedal.compile(model, TINY, host=None)
    tuned = daedal.compile(model, TINY, host=None, configs=configs)
    feeds = {"x": rng.normal(0, 2, (1, 8, 10, 10)).astype(np.float32)}
    outputs = [
        next(iter(daedal.simulate(item, feeds, device="functional").outputs.values()))
        for item in (plain, tuned)
    ]
    np.testing.assert_array_equal(*outputs)


def test_a_later_run_measures_nothing_again(
    model: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("xgboost", reason="the extra `tune` is not installed")
    with Database(tmp_path / "records.db") as database:
        tune_network(model, TINY, database, trials=12)
        first = {(r.workload.key, r.config) for r in database.records()}
        tune_network(model, TINY, database, trials=12, seed=1)
        both = [(r.workload.key, r.config) for r in database.records()]
    assert len(first) <= 12 < len(both) <= 24
    assert first < set(both) and len(set(both)) == len(both)


def test_what_cannot_be_tuned_is_refused(tmp_path: Path, model: bytes) -> None:
    with Database(tmp_path / "records.db") as database:
        with pytest.raises(TuningError, match="trials must be at least 1, not 0"):
            tune_network(model, TINY, database, trials=0)
        net = QdqModel()
        x = net.requantized(net.input("x", (1, 8, 6, 6)), 0.05, 0)
        y = net.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
        pool = net.model(net.requantized(y, 0.05, 0)).SerializeToString()
        with pytest.raises(TuningError, match="a network to tune must have dense convolutions"):
            tune_network(pool, TINY, database, trials=4)
