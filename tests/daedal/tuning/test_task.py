"""`Task`: what it promises, and when it ends."""

from pathlib import Path

import pytest

from daedal.compiler.space import Config
from daedal.compiler.tune.database import Database
from daedal.compiler.tune.random_search import Random
from daedal.compiler.tune.workload import Workload
from daedal.isa.variant import load_variant
from daedal.tuning.task import Setting, Task
from tests.support.tuning_spaces import Small

WORKLOAD = Workload.of("q_conv2d", attributes={}, shapes={}, layouts={})


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    return Setting(load_variant("tiny"), "ddr", Database(tmp_path / "records.db"))


def make_task(bound: int | None, known: dict[Config, int | None] | None = None) -> Task:
    space = Small()
    search = Random(space, seed=0)
    return Task(["one", "two"], space, space.measure, search, WORKLOAD, known or {}, bound)


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
