"""`TuningTarget`: another target is tuned with the same searches, records and reports."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.tuning.searches.random_search import Random
from daedal.common.errors import TuningError
from daedal.compiler.tune.database import Database
from daedal.reports.tuning import tuning_json, tuning_lines
from daedal.tuning.network import tune_network
from daedal.tuning.selection import check_recorded, other_machines, selected_configs
from daedal.tuning.target import Setting, Unit
from daedal.tuning.task import Known, Task
from tests.support.tuning_target import ToyTarget

CLOCK = Unit("ticks", noise=0.05)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    pytest.importorskip("xgboost", reason="the extra `tune` is not installed")
    with Database(tmp_path / "records.db") as opened:
        yield opened


def test_a_target_of_its_own_is_tuned(database: Database) -> None:
    target = ToyTarget()
    tuning = tune_network(target, database, trials=24)
    (result,) = tuning.results
    assert result.layers == ("a", "b") and result.trials == 24 == tuning.trials
    assert result.best_cycles < result.default_cycles
    assert tuning.selection is not None
    assert tuning.selection.after.total == 2 * result.best_cycles
    assert {record.target for record in database.records()} == {"toy", "network"}
    setting = Setting(target.place, database)
    assert selected_configs(setting, target.digest) == {result.workload.key: result.config}


def test_a_later_run_continues_and_another_machine_begins(database: Database) -> None:
    first = tune_network(ToyTarget(), database, trials=10)
    again, other = ToyTarget(), ToyTarget(machine="toy2")
    more = tune_network(again, database, trials=5)
    (before,), (after,) = first.results, more.results
    assert again.known[0] == before.default_cycles
    assert len(after.history) == len(before.history) + 5
    assert other_machines(Setting(other.place, database)) == ["toy1"]
    with pytest.raises(TuningError, match=r"here toy2; 'x.db' has records of toy1 only; choose"):
        check_recorded(Setting(other.place, database), Path("x.db"))
    (fresh,) = tune_network(other, database, trials=3).results
    assert other.known[0] is None and len(fresh.history) == 3


def test_reports_name_the_unit(database: Database) -> None:
    tuning = tune_network(ToyTarget(unit=CLOCK), database, trials=4)
    assert tuning_json(tuning)["unit"] == "ticks"
    lines = " ".join(tuning_lines(tuning, "records.db"))
    assert "ticks by default" in lines and "cycles" not in lines


def test_only_the_accelerator_explains(database: Database) -> None:
    with pytest.raises(TuningError, match=r"only layers on the accelerator .* 'a' runs on a toy"):
        tune_network(ToyTarget(), database, trials=4, explain=["a"])


def test_what_is_only_lucky_does_not_count_where_measurements_have_noise(
    database: Database,
) -> None:
    target = ToyTarget(unit=CLOCK)
    (kind,) = target.kinds()
    runner = kind.runner(None)
    setting = Setting(target.place, database)
    search = Random(target.space, seed=3)
    task = Task(kind.layers, target.space, runner.results, search, kind.workload, Known())
    task.measure([task.default], setting)
    (lucky,) = (config for config in search.propose(1) if config != task.default)
    target.lucky.add(lucky)
    task.measure([lucky], setting)
    assert task.best is not None and task.best[0] == lucky
    trials = task.trials
    task.settle(setting)
    assert task.measured[lucky] == target.cycles(lucky)
    assert task.trials == trials == 2, "it is the same trial"


def test_a_gain_within_the_noise_does_not_count(database: Database) -> None:
    exact = tune_network(ToyTarget(), database, trials=24)
    (result,) = exact.results
    gain = 1 - result.best_cycles / result.default_cycles
    target = ToyTarget(unit=Unit("ticks", noise=gain + 0.01), machine="toy2")
    noisy = tune_network(target, database, trials=24)
    assert noisy.selection is not None and noisy.selection.configs == {}
    target = ToyTarget(unit=Unit("ticks", noise=gain / 2), machine="toy3")
    clear = tune_network(target, database, trials=24)
    assert clear.selection is not None and clear.selection.configs != {}
