"""`tune_network`: faster layers, the same bytes, a budget, and a run that continues."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import daedal
from bench.qdq_model import QdqModel
from daedal.common.errors import TuningError
from daedal.compiler.ops.space import Config
from daedal.compiler.tune.database import Database
from daedal.isa.variant import load_variant
from daedal.tuning.accelerator import AcceleratorTuning, recorded_configs
from daedal.tuning.network import NetworkTuning, tune_network

TINY = load_variant("tiny")


@pytest.fixture(scope="module")
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


@pytest.fixture(scope="module")
def tuned(model: bytes, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, NetworkTuning]:
    """Its database after twelve trials, as JSON lines, and what they found."""
    pytest.importorskip("xgboost", reason="the extra `tune` is not installed")
    folder = tmp_path_factory.mktemp("tuned")
    with Database(folder / "records.db") as database:
        tuning = tune_network(AcceleratorTuning(model, TINY), database, trials=12)
        database.export(folder / "records.jsonl")
    return folder / "records.jsonl", tuning


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    pytest.importorskip("xgboost", reason="the extra `tune` is not installed")
    with Database(tmp_path / "records.db") as opened:
        yield opened


def test_the_network_is_never_slower_and_gives_the_same_bytes(
    model: bytes, tuned: tuple[Path, NetworkTuning], database: Database, rng: np.random.Generator
) -> None:
    path, tuning = tuned
    database.load(path)
    results, selection = tuning.results, tuning.selection
    assert sorted(item.count for item in results) == [1, 2]
    assert tuning.trials == sum(item.trials for item in results) <= 12
    assert all(item.best_cycles <= item.default_cycles for item in results)
    assert all(item.best_cycles in item.history for item in results)
    for item in results:
        assert item.bound_cycles is not None and 0 < item.bound_cycles <= item.best_cycles
    assert selection is not None and selection.after.total <= selection.before.total
    feeds = {"x": rng.normal(0, 2, (1, 8, 10, 10)).astype(np.float32)}
    outputs, cycles = [], []
    for configs in ({}, recorded_configs(database, TINY, model=model)):
        artifact = daedal.compile(model, TINY, configs=configs)
        run = daedal.simulate(artifact, feeds, device="timing")
        outputs.append(next(iter(run.outputs.values())))
        cycles.append(run.profiles[0].cycles)
    np.testing.assert_array_equal(*outputs)
    assert cycles == [selection.before.total, selection.after.total]


def test_a_later_run_measures_nothing_again_and_is_never_slower(
    model: bytes, tuned: tuple[Path, NetworkTuning], database: Database
) -> None:
    path, tuning = tuned
    database.load(path)
    first = _measured(database)
    again = tune_network(AcceleratorTuning(model, TINY), database, trials=6, seed=1)
    both = _measured(database)
    assert len(both) == len(first) + again.trials and set(first) < set(both)
    assert again.trials > 0
    assert sum(len(item.history) for item in again.results) == len(both)
    assert tuning.selection is not None and again.selection is not None
    assert again.selection.after.total <= tuning.selection.after.total


def test_a_small_budget_measures_the_defaults_first(model: bytes, database: Database) -> None:
    tuning = tune_network(AcceleratorTuning(model, TINY), database, trials=2)
    assert [item.trials for item in tuning.results] == [1, 1]
    assert all(item.best_cycles == item.default_cycles for item in tuning.results)
    assert tuning.selection is not None and not tuning.selection.configs


def test_an_interrupt_returns_what_was_measured(model: bytes, database: Database) -> None:
    sentences = []

    def interrupt(sentence: str) -> None:
        sentences.append(sentence)
        if len(sentences) == 5:  # `compiling`, two defaults, a batch
            raise KeyboardInterrupt

    tuning = tune_network(AcceleratorTuning(model, TINY), database, trials=100, report=interrupt)
    assert tuning.selection is None
    assert len(_measured(database)) == tuning.trials > 2


@pytest.mark.parametrize("target", ["accelerator", "network"])
def test_records_that_do_not_replay_are_refused(
    model: bytes, tuned: tuple[Path, NetworkTuning], database: Database, target: str
) -> None:
    path, _ = tuned
    forged = []
    for line in path.read_text().splitlines():
        record = json.loads(line)
        if record["target"] == target and record["cycles"] is not None:
            record["cycles"] //= 2
        forged.append(json.dumps(record) + "\n")
    other = path.with_name(f"{target}.jsonl")
    other.write_text("".join(forged))
    database.load(other)
    with pytest.raises(TuningError, match=r"a record must replay, and .* takes .* not"):
        tune_network(AcceleratorTuning(model, TINY), database, trials=1)


def test_a_recorded_configuration_that_does_not_build_is_refused(
    model: bytes, tuned: tuple[Path, NetworkTuning]
) -> None:
    _, tuning = tuned
    item = tuning.results[0]
    for name, value in (("height", 77), ("unknown", 1)):
        broken = Config.from_json({**item.config.to_json(), name: value})
        with pytest.raises(TuningError, match=r"a configuration must build its layer, and .* does"):
            daedal.compile(model, TINY, configs={item.workload.key: broken})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trials": 0}, "trials must be at least 1, not 0"),
        ({"trials": -3}, "trials must be at least 1, not -3"),
        ({"seconds": 0.0}, "seconds must be more than 0, not 0"),
        ({"seconds": -1.5}, "seconds must be more than 0, not -1.5"),
        ({"seconds": float("nan")}, "seconds must be more than 0, not nan"),
        ({"trials": 4, "memory": "jitter"}, "a memory without random delays, not 'jitter'"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    model: bytes, database: Database, options: dict[str, Any], message: str
) -> None:
    where = {"memory": options.pop("memory")} if "memory" in options else {}
    with pytest.raises(TuningError, match=message):
        tune_network(AcceleratorTuning(model, TINY, **where), database, **options)
    assert not database.records()


def _measured(database: Database) -> list[tuple[str, Config]]:
    records = database.records(target="accelerator")
    return [(record.workload.key, record.config) for record in records]


def test_a_network_with_one_schedule_for_each_layer_is_refused(database: Database) -> None:
    net = QdqModel()
    x = net.requantized(net.input("x", (1, 8, 1, 1)), 0.05, 0)
    y = net.op("LeakyRelu", x, alpha=0.1)
    single = net.model(net.requantized(y, 0.05, 0)).SerializeToString()
    with pytest.raises(TuningError, match="must have layers with more than one schedule"):
        tune_network(AcceleratorTuning(single, TINY), database, trials=4)
