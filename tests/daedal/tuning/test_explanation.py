"""Explanations: contributions that add up, knobs that were measured, what the units did."""

import math
from pathlib import Path

import numpy as np
import pytest

from bench.qdq_model import QdqModel
from daedal.common.errors import TuningError
from daedal.compiler.tune.database import Database
from daedal.isa.registers import CycleClass
from daedal.isa.table import Unit
from daedal.isa.variant import load_variant
from daedal.reports.console import make_console
from daedal.reports.explanation import explanation_lines, explanation_tables
from daedal.reports.schedule_features import feature_title
from daedal.tuning.accelerator import AcceleratorTuning
from daedal.tuning.contributions import Contributions, Schedules
from daedal.tuning.experience import Experience
from daedal.tuning.explanation import Explanation, explain_layer
from daedal.tuning.network import tune_network
from daedal.tuning.target import Setting
from daedal.tuning.task import make_tasks
from daedal.tuning.whole_network import WholeNetwork
from tests.support.tuning_spaces import Rugged

TINY = load_variant("tiny")


@pytest.fixture(autouse=True, scope="module")
def _needs_xgboost() -> None:
    pytest.importorskip("xgboost", reason="the extra `tune` is not installed")


@pytest.fixture(scope="module")
def model() -> bytes:
    rng = np.random.default_rng(3)
    net = QdqModel()
    x = net.requantized(net.input("x", (1, 8, 10, 10)), 0.05, 0)
    values = rng.integers(-127, 128, (16, 8, 3, 3)).astype(np.int8)
    y = net.op("Conv", x, net.weights(values, 0.01), pads=[1] * 4)
    return net.model(net.requantized(y, 0.05, 0)).SerializeToString()


@pytest.fixture(scope="module")
def records(model: bytes, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("records") / "records.db"
    with Database(path) as database:
        tune_network(AcceleratorTuning(model, TINY), database, trials=20)
    return path


@pytest.fixture(scope="module")
def explained(model: bytes, records: Path) -> Explanation:
    with Database(records) as database:
        target = AcceleratorTuning(model, TINY)
        setting = Setting(target.place, database)
        tasks = make_tasks(target, setting, 0, Experience().model)
        return explain_layer(target.network, tasks, tasks[0].layers[0], setting)


def _toy_schedules(rng: np.random.Generator, count: int) -> Schedules:
    """Schedules whose cycles depend on `traffic` alone."""
    space = Rugged()
    configs = list(dict.fromkeys([space.default, *space.sample(rng, count)]))
    traffic = space.features(space.table(configs))["traffic"]
    cycles = {config: int(100 * value) for config, value in zip(configs, traffic, strict=True)}
    return Schedules(space, space.default, cycles)


def test_the_feature_that_decides_gets_the_credit(rng: np.random.Generator) -> None:
    own = _toy_schedules(rng, 200)
    model = Contributions(own, [])
    worst = max(own.cycles, key=lambda config: own.cycles[config])
    found = model.difference(worst)
    measured = math.log(own.cycles[worst] / own.cycles[own.default])
    assert max(found, key=lambda name: abs(found[name])) == "traffic"
    assert sum(found.values()) == pytest.approx(measured, rel=0.1)
    assert 0 < model.error < 0.1


def test_the_default_differs_from_itself_by_nothing(rng: np.random.Generator) -> None:
    own = _toy_schedules(rng, 50)
    assert set(Contributions(own, []).difference(own.default).values()) == {0.0}


def test_other_layers_teach(rng: np.random.Generator) -> None:
    own = _toy_schedules(rng, 16)
    assert Contributions(own, [_toy_schedules(rng, 300)]).error < Contributions(own, []).error


def test_knobs_are_measured_and_units_are_those_of_the_machine(explained: Explanation) -> None:
    before, after = explained.cycles
    assert after < before, "tuning this layer gains something"
    values = dict(explained.default.values)
    changed = {knob: (values[knob], value) for knob, value in explained.best.values}
    changed = {knob: pair for knob, pair in changed.items() if pair[0] != pair[1]}
    assert {knob.knob: (knob.before, knob.after) for knob in explained.knobs} == changed
    assert all(
        knob.cycles_without is None or knob.cycles_without >= after for knob in explained.knobs
    )
    # Every cycle of a unit is in one class, up to its last instruction.
    store = [item for item in explained.units if item.unit is Unit.STORE]
    assert sum(item.after - item.before for item in store) == after - before
    assert {item.kind for item in explained.units} <= set(CycleClass)
    work = {name: pair for name, *pair in explained.work}
    assert work["words stored"][0] == work["words stored"][1] > 0


def test_contributions_add_up(explained: Explanation) -> None:
    product = math.prod(1 + item.effect for item in explained.contributions)
    assert product * (1 + explained.rest) == pytest.approx(1 + explained.predicted)
    assert explained.contributions
    assert all(item.before != item.after for item in explained.contributions)


def test_words_and_tables_tell_the_figures(explained: Explanation) -> None:
    text = " ".join(explanation_lines(explained))
    before, after = explained.cycles
    assert f"takes {after:,} cycles instead of {before:,}" in text
    assert explained.knobs[0].knob in text and "for schedules that it has not seen" in text
    console = make_console()
    with console.capture() as captured:
        for table in explanation_tables(explained):
            console.print(table)
    shown = captured.get()
    assert "Knobs that changed" in shown and "cycles in which" in shown
    for knob in explained.knobs:
        assert feature_title(knob.knob) in shown, "what it means"
    table, _, same = " ".join(shown.split()).partition("the same in both: ")
    for name, old, new in explained.work:
        assert (f"{old:,} {name}" in same) == (old == new)
        assert (f"{name} {old:,} {new:,}" in table) == (old != new)
    rows = len(explained.contributions[:8])
    assert sum("%" in line for line in shown.splitlines()) == rows, "one for each that differs"


def test_too_few_records_and_unknown_layers_are_refused(model: bytes, tmp_path: Path) -> None:
    with Database(tmp_path / "few.db") as database:
        tune_network(AcceleratorTuning(model, TINY), database, trials=2)
        (layer,) = {item.name for item in WholeNetwork(model, TINY).artifact({}).layers}
        with pytest.raises(TuningError, match=r"at least 16 measured .* has 2 .* add --trials"):
            tune_network(AcceleratorTuning(model, TINY), database, explain=[layer])
        with pytest.raises(TuningError, match=r"a layer to explain must be one of .*, not 'none'"):
            tune_network(AcceleratorTuning(model, TINY), database, trials=4, explain=["none"])
        assert len(database.records(target="accelerator")) == 2
