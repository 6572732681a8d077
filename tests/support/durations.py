"""A pytest plugin that knows what tests cost: which are slow, and how they fall into shards.

`tests/durations.json` has the CPU seconds (of the reference processor, `cpu_budget`) of the tests
that use more than `SLOW_S`. These are marked ``slow``, unless they are marked ``heavy``. It is less
than the limit at which tests fail: a test in between does not fail on a busy machine. Tests that
are marked ``slow`` where they are written are in the table, however short they are.

``--shard 2/60`` keeps the tests of the second of 60 parts, which take about the same time.
Tests of a file, or of an xdist group, share fixtures and stay together unless they exceed a part.
Those that are not slow also run in one process, whatever `--dist loadgroup` has.

``python -m tests.support.durations TIMES`` updates the table from files that ``--cpu-times`` wrote.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest

from tests.support.cpu_budget import ID, MARKED_SLOW

__all__ = ["SLOW_S", "TABLE", "Durations", "read_table", "shard_of", "updated_table"]

SLOW_S = 0.3
UNKNOWN_S = 20.0
"""What a slow test is taken to use until it has been measured."""

TABLE = Path(__file__).resolve().parent.parent / "durations.json"


def read_table(path: Path = TABLE) -> dict[str, float]:
    """CPU seconds by the tests' ids; empty where there is no table."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


class Durations:
    """Marks the slow tests, leaves out those of other shards, and keeps the others of a file
    together."""

    def __init__(self, table: Mapping[str, float], shard: tuple[int, int] | None) -> None:
        self._table, self._shard = table, shard

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Before `-m` selects tests, and before their ids change."""
        for item in items:
            item.stash[ID] = item.nodeid
            item.stash[MARKED_SLOW] = item.get_closest_marker("slow") is not None
            if self._table.get(item.nodeid, 0) > SLOW_S and not item.get_closest_marker("heavy"):
                item.add_marker("slow")
            elif not item.get_closest_marker("slow") and not item.get_closest_marker("xdist_group"):
                item.add_marker(pytest.mark.xdist_group(_unit(item)))
        if self._shard is None:
            return
        slow = [item for item in items if item.get_closest_marker("slow")]
        costs = {item.nodeid: self._table.get(item.nodeid, UNKNOWN_S) for item in slow}
        units = {item.nodeid: _unit(item) for item in slow}
        kept = shard_of(*self._shard, costs, units)
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in kept])
        items[:] = [item for item in items if item.nodeid in kept]


def _unit(item: pytest.Item) -> str:
    """What the test shares its fixtures with."""
    group = item.get_closest_marker("xdist_group")
    return str(group) if group else item.nodeid.partition("::")[0]


def shard_of(
    number: int, count: int, costs: Mapping[str, float], units: Mapping[str, str]
) -> frozenset[str]:
    """The tests of shard `number` of 1 to `count`.

    The most expensive units first, each goes to the shard that has the least so far.

    Parameters
    ----------
    costs : CPU seconds of each test.
    units : of each test, what it should stay together with.
    """
    together = defaultdict[str, list[str]](list)
    for test in sorted(costs):
        together[units[test]].append(test)
    share = sum(costs.values()) / count
    pieces = list[Sequence[str]]()
    for tests in together.values():
        is_whole = sum(costs[test] for test in tests) <= share
        pieces += [tests] if is_whole else [[test] for test in tests]
    pieces.sort(key=lambda piece: (-sum(costs[test] for test in piece), piece[0]))
    shards: list[list[str]] = [[] for _ in range(count)]
    spent = [0.0] * count
    for piece in pieces:
        least = spent.index(min(spent))
        shards[least] += piece
        spent[least] += sum(costs[test] for test in piece)
    return frozenset(shards[number - 1])


def updated_table(table: Mapping[str, float], measured: Iterable[str]) -> dict[str, float]:
    """The table with what was measured, without the tests that use `SLOW_S` at most and are not
    marked ``slow``.

    `measured`: lines as ``--cpu-times`` writes them. The last one counts if a test has several.
    """
    new = dict(table)
    for line in measured:
        told = json.loads(line)
        test, seconds = told["test"], round(told["cpu_s"], 2)
        new.pop(test, None)
        if seconds > SLOW_S or told.get("marked_slow"):
            new[test] = seconds
    return dict(sorted(new.items()))


def main() -> None:
    """Rewrite the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("times", nargs="+", type=Path)
    lines = [line for path in parser.parse_args().times for line in path.read_text().splitlines()]
    text = json.dumps(updated_table(read_table(), lines), indent=0)
    TABLE.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
