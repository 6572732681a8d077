"""`select`: the whole network decides which layers take their tuned configurations."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from daedal.compiler.space import Config
from daedal.compiler.tune.database import Database
from daedal.compiler.tune.record import Record
from daedal.compiler.tune.workload import Workload
from daedal.isa.errors import TuningError
from daedal.isa.variant import load_variant
from daedal.tuning.selection import check_recorded, select
from daedal.tuning.task import TARGET
from daedal.tuning.whole_network import NetworkCycles

BEST = {name: Config.of(tile=number) for number, name in enumerate("abc")}


class FakeNetwork:
    """Cycles of a network by the kinds that are tuned; 100 for each kind by default."""

    def __init__(self, tuned: Mapping[str, int], extra: Mapping[str, int]) -> None:
        self._tuned = tuned
        self._extra = extra
        self.counted: list[str] = []

    def count(self, configs: Mapping[str, Config]) -> NetworkCycles:
        chosen = "".join(sorted(configs))
        self.counted.append(chosen)
        kinds = {name: self._tuned[name] if name in configs else 100 for name in BEST}
        return NetworkCycles(sum(kinds.values()) + self._extra.get(chosen, 0), kinds)


def test_all_are_taken_where_all_gain() -> None:
    network = FakeNetwork({"a": 90, "b": 80, "c": 99}, {})
    found = select(network, BEST)
    assert found.configs == BEST and network.counted == ["", "abc"]
    assert (found.before.total, found.after.total) == (300, 269)


def test_a_kind_that_loses_in_the_network_keeps_its_default() -> None:
    found = select(FakeNetwork({"a": 90, "b": 120, "c": 99}, {}), BEST)
    assert set(found.configs) == {"a", "c"}
    assert (found.tuned.total, found.after.total) == (309, 289)


def test_it_is_taken_if_the_network_is_slower_without_it() -> None:
    found = select(FakeNetwork({"a": 90, "b": 101, "c": 90}, {"ac": 50}), BEST)
    assert found.configs == BEST and found.after.total == 281


def test_nothing_is_taken_where_the_network_gains_nothing() -> None:
    found = select(FakeNetwork({"a": 99, "b": 99, "c": 99}, {"abc": 3}), BEST)
    assert found.configs == {} and found.after == found.before
    assert found.tuned.total == 300


def test_what_is_remembered_is_kept_if_it_is_better_and_replays() -> None:
    network = FakeNetwork({"a": 90, "b": 95, "c": 90}, {"abc": 20})
    old = {"a": BEST["a"]}
    assert select(network, BEST).after.total == 295
    assert select(network, BEST, (old, 290)).configs == old
    with pytest.raises(TuningError, match="the network takes 290 cycles, not 200 as recorded"):
        select(network, BEST, (old, 200))


def test_a_database_without_records_of_the_variant_is_refused(tmp_path: Path) -> None:
    tiny = load_variant("tiny")
    path = tmp_path / "some.db"
    workload = Workload.of("matmul", attributes={}, shapes={}, layouts={})

    def record(fingerprint: str, memory: str, cycles: int | None, target: str = TARGET) -> Record:
        return Record(workload, fingerprint, memory, target, Config.of(tile=1), cycles)

    with Database(path) as database:

        def refusal() -> str:
            with pytest.raises(TuningError, match="must have records of the variant") as caught:
                check_recorded(database, tiny, "ddr", path)
            return str(caught.value)

        assert f"here tiny ({tiny.fingerprint}) with memory ddr; {str(path)!r}" in refusal()
        assert "has no measured layer; tune with" in refusal()
        database.add([record(tiny.fingerprint, "ddr", None)])
        database.add([record(tiny.fingerprint, "ddr", 5, "network")])
        assert "has no measured layer; tune with" in refusal()
        database.add([record(name, "ddr", 7) for name in "abcde"])
        assert "has records of a, b, c and 2 more only; choose the variant" in refusal()
        database.add([record(tiny.fingerprint, "slow", 9)])
        assert "of it with memory slow only; give --memory slow, or tune with" in refusal()
        database.add([record(tiny.fingerprint, "ddr", 3)])
        check_recorded(database, tiny, "ddr", path)
