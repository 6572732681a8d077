"""`Task`: what it promises, when it ends, and what it measures again."""

import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.tuning.searches.random_search import Random
from daedal.compiler.ops.space import Config
from daedal.compiler.tune.database import Database
from daedal.compiler.tune.record import UNVERIFIED, Record
from daedal.compiler.tune.workload import Workload
from daedal.isa.variant import load_variant
from daedal.tuning.accelerator import TARGET, variant_place
from daedal.tuning.runner import Failure, Result
from daedal.tuning.target import Setting
from daedal.tuning.task import Known, Task, known_of
from tests.support.tuning_spaces import Small

WORKLOAD = Workload.of("q_conv2d", attributes={}, shapes={}, layouts={})


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    return Setting(variant_place(load_variant("tiny")), Database(tmp_path / "records.db"))


SPACE = Small()
A, B, C, D = [config for config in SPACE.enumerate() if config != SPACE.default][:4]


def measured(config: Config) -> Result:
    return Result(SPACE.measure([config])[0])


def results(configs: Sequence[Config]) -> list[Result]:
    return [measured(config) for config in configs]


def timed_out(configs: Sequence[Config]) -> list[Result]:
    return [Result.failed(Failure.TIMEOUT, "slow")] * len(configs)


def make_task(bound: int | None) -> Task:
    search = Random(SPACE, seed=0)
    return Task(["one", "two"], SPACE, results, search, WORKLOAD, Known(), bound)


def test_a_task_ends_at_its_bound(setting: Setting) -> None:
    (least,) = Small().measure([Small().default])
    assert least is not None
    ended, other = make_task(least), make_task(least - 1)
    for task in (ended, other):
        assert task.propose(8) == [task.default]
        task.measure([task.default], setting)
        assert task.best == (task.default, least)
    assert ended.propose(8) == [] and ended.ended
    assert other.propose(8) != [] and not other.ended


def test_what_remains_above_the_bound_limits_the_promise(setting: Setting) -> None:
    promises = []
    for bound in (None, 1, 10**9):
        task = make_task(bound)
        task.measure([task.default], setting)
        promises.append(task.promise)
    unlimited, large, none = promises
    assert unlimited > 0 and none <= 0 < large


def test_a_batch_without_gain_lowers_the_promise(setting: Setting) -> None:
    task = make_task(None)
    task.measure([task.default], setting)
    hoped = task.promise
    task.measure(task.propose(4), setting)  # the default is the best there is
    assert task.promise < hoped
    assert task.trials == 5 == len(setting.database.records())


def resumed(setting: Setting, limit: float) -> Task:
    """A task of a later run on what the database knows, where everything times out."""
    known = known_of(setting.records(WORKLOAD), SPACE, limit)
    search = Random(SPACE, seed=0)
    return Task(
        ["one"], SPACE, timed_out, search, WORKLOAD, known, here=measured, limit_seconds=limit
    )


def test_the_default_is_measured_even_if_it_times_out(setting: Setting) -> None:
    task = resumed(setting, 0.05)
    task.measure([task.default, A], setting)
    assert task.best == (task.default, measured(task.default).cycles)
    (failed,) = [item for item in setting.database.records() if item.cycles is None]
    assert (failed.config, failed.failure, failed.limit_seconds) == (A, "timed out", 0.05)


@pytest.mark.parametrize(
    ("limit", "again"), [(0.5, set()), (1.0, set()), (2.0, {A, B}), (math.inf, {A, B})]
)
def test_what_timed_out_is_measured_again_with_more_time_only(
    setting: Setting, limit: float, again: set[Config]
) -> None:
    resumed(setting, 1.0).measure([A, B], setting)
    task = resumed(setting, limit)
    assert task.propose(1) == [SPACE.default]
    task.measure([SPACE.default], setting)
    assert set(task.propose(2)) & {A, B} == again


def test_a_default_that_failed_in_an_earlier_run_is_measured_again(setting: Setting) -> None:
    for failure in ("timed out", "crashed", ""):
        setting.database.add(
            [setting_record(setting, SPACE.default, failure), setting_record(setting, A, failure)]
        )
        task = resumed(setting, 0.1)
        assert task.propose(8) == [SPACE.default]
        assert A in task.measured or failure == "timed out"
    setting.database.add([setting_record(setting, SPACE.default, "does not build")])
    assert SPACE.default in resumed(setting, 0.1).measured


def setting_record(setting: Setting, config: Config, failure: str) -> Record:
    where = (WORKLOAD, setting.place.fingerprint, "ddr", TARGET)
    number = len(setting.database.records())
    return Record(*where, config, None, setting.database.kit, 10 + number, failure)


def test_what_another_version_measured_is_measured_again_first(setting: Setting) -> None:
    gone = Config.of(depth=4)
    setting.database.add(
        setting_record(setting, config, UNVERIFIED) for config in (B, A, gone, D, C)
    )
    known = known_of(setting.records(WORKLOAD), SPACE, math.inf)
    assert known.measured == {} and set(known.again) == {A, B, C, D}
    task = Task(["one"], SPACE, results, Random(SPACE, seed=0), WORKLOAD, known)
    task.measure(task.propose(8), setting)
    first = task.propose(3)
    task.measure(first, setting)
    (last,) = task.propose(3)
    assert {*first, last} == {A, B, C, D}
    task.measure([last], setting)
    assert not {A, B, C, D} & set(task.propose(3))


def test_a_record_whose_process_is_slow_replays(setting: Setting) -> None:
    make_task(None).measure([SPACE.default], setting)
    resumed(setting, 0.1).replay()
