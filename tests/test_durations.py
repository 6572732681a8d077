"""The table of slow tests and the shards."""

import json
from pathlib import Path

import pytest

from tests.support.cpu_budget import LIMIT_S
from tests.support.durations import SLOW_S, read_table, shard_of, updated_table

ROOT = Path(__file__).resolve().parent.parent
COSTS = {
    **{f"a.py::{number}": 3.0 for number in range(20)},
    "b.py::0": 9.0,
    "b.py::1": 2.0,
    "c.py::0": 1.0,
    "d.py::0": 2.0,
}
UNITS = {test: test.partition("::")[0] for test in COSTS} | {"c.py::0": "group", "d.py::0": "group"}


@pytest.mark.parametrize("count", [1, 2, 3, 7, 40])
def test_each_test_is_in_one_shard(count: int) -> None:
    shards = [shard_of(number, count, COSTS, UNITS) for number in range(1, count + 1)]
    assert sorted(test for shard in shards for test in shard) == sorted(COSTS)


def test_shards_take_the_same_time_and_keep_units_together() -> None:
    shards = [shard_of(number, 3, COSTS, UNITS) for number in (1, 2, 3)]
    spent = [sum(COSTS[test] for test in shard) for shard in shards]
    assert max(spent) - min(spent) <= 3.0
    for together in ({"b.py::0", "b.py::1"}, {"c.py::0", "d.py::0"}):
        assert any(together <= shard for shard in shards)


def test_measured_tests_enter_and_leave_the_table() -> None:
    lines = [
        json.dumps({"test": test, "cpu_s": seconds, "shared_s": 9.0})
        for test, seconds in (("a", 0.2), ("b", 7.123), ("c", 1.5), ("c", 0.3))
    ]
    lines.append(json.dumps({"test": "e", "cpu_s": 0.104, "shared_s": 0.0, "marked_slow": True}))
    assert updated_table({"a": 3.0, "d": 2.0}, lines) == {"b": 7.12, "d": 2.0, "e": 0.1}


def test_the_table_is_sorted() -> None:
    table = read_table()
    assert list(table) == sorted(table)
    assert SLOW_S < LIMIT_S, "between them a test is neither slow nor an error"


def test_each_slow_test_exists() -> None:
    """A test that was renamed would run in `make test`, and its line would stay for ever."""
    for test in read_table():
        file, _, name = test.partition("[")[0].partition("::")
        text = (ROOT / file).read_text(encoding="utf-8")
        assert f"def {name.split('::')[-1]}(" in text, f"tests/durations.json: no {test}"
